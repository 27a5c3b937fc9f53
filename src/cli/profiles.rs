//! `profiles`: the built-in ones.

use crate::plan::{lab, profile};

use super::args::Profiles;
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Profiles, terminal: &Terminal) -> anyhow::Result<u8> {
    let text = match &args.name {
        None => {
            let profiles = profile::built_in()?;
            let labs = lab::built_in()?;
            let plain = profiles
                .iter()
                .map(|profile| (&profile.name, &profile.about));
            let labs = labs.iter().map(|profile| (&profile.name, &profile.about));
            let width = plain
                .clone()
                .chain(labs.clone())
                .map(|(name, _)| name.len())
                .max();
            let width = width.unwrap_or(0);
            let line = |(name, about): (&String, &String)| format!("{name:width$}  {about}\n");
            let plain: String = plain.map(line).collect();
            let labs: String = labs.map(line).collect();
            format!("{plain}\nFor `syncprof lab`:\n{labs}")
        }
        Some(wanted) => {
            let mut all = profile::BUILT_IN.iter().chain(&lab::BUILT_IN);
            let found = all.find(|(name, _)| name == wanted);
            let Some((_, text)) = found else {
                return Err(UsageError(format!(
                    "no built-in profile '{wanted}'; `syncprof profiles` lists them"
                ))
                .into());
            };
            (*text).to_owned()
        }
    };
    terminal.print(&text)?;
    Ok(status::MEASURED)
}
