//! `profiles`: the built-in ones.

use crate::plan::profile;

use super::args::Profiles;
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Profiles, terminal: &Terminal) -> anyhow::Result<u8> {
    let text = match &args.name {
        None => {
            let width = profile::BUILT_IN
                .iter()
                .map(|(name, _)| name.len())
                .max()
                .unwrap_or(0);
            let mut text = String::new();
            for (name, _) in profile::BUILT_IN {
                let about = profile::load(name)?.about;
                text.push_str(&format!("{name:width$}  {about}\n"));
            }
            text
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
