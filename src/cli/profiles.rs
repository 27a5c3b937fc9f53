//! `profiles`: the built-in ones.

use crate::plan::profile::{self, Profile};

use super::args::Profiles;
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Profiles, terminal: &Terminal) -> anyhow::Result<u8> {
    let text = match &args.name {
        None => {
            let profiles = profile::built_in()?;
            let width = profiles.iter().map(|profile| profile.name.len()).max();
            let width = width.unwrap_or(0);
            let line = |profile: &Profile| format!("{:width$}  {}\n", profile.name, profile.about);
            profiles.iter().map(line).collect()
        }
        Some(wanted) => {
            let found = profile::BUILT_IN.iter().find(|(name, _)| name == wanted);
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
