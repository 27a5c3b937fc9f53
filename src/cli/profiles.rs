//! `profiles`: the built-in ones, and the built-in claims.

use crate::plan::{claims, lab, profile};

use super::args::Profiles;
use super::config::UsageError;
use super::output::Terminal;
use super::status;

/// Names claims where a profile has the same name.
const CLAIMS: &str = "claims/";

pub(super) fn run(args: &Profiles, terminal: &Terminal) -> anyhow::Result<u8> {
    let text = match &args.name {
        None => list()?,
        Some(wanted) => text(wanted)?.to_owned(),
    };
    terminal.print(&text)?;
    Ok(status::MEASURED)
}

fn list() -> anyhow::Result<String> {
    let profiles = profile::built_in()?;
    let labs = lab::built_in()?;
    let claims = claims::built_in()?;
    let profiles = profiles.iter().map(|one| (&one.name, &one.about));
    let labs = labs.iter().map(|one| (&one.name, &one.about));
    let claims = claims.iter().map(|one| (&one.name, &one.about));
    let names = profiles.clone().chain(labs.clone()).chain(claims.clone());
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, about): (&String, &String)| format!("{name:width$}  {about}\n");
    let [profiles, labs, claims] = [
        profiles.map(line).collect::<String>(),
        labs.map(line).collect(),
        claims.map(line).collect(),
    ];
    Ok(format!(
        "{profiles}\nFor `syncprof lab`:\n{labs}\nClaims, for `syncprof validate DEVICE --claims \
         NAME`:\n{claims}"
    ))
}

/// A profile's text, or that of claims, which may be written `claims/NAME`.
fn text(wanted: &str) -> Result<&'static str, UsageError> {
    let profiles = profile::BUILT_IN.iter().chain(&lab::BUILT_IN);
    let claims = claims::BUILT_IN.iter();
    let found = match wanted.strip_prefix(CLAIMS) {
        Some(wanted) => claims.clone().find(|(name, _)| *name == wanted),
        None => profiles.chain(claims).find(|(name, _)| *name == wanted),
    };
    found.map(|(_, text)| *text).ok_or_else(|| {
        UsageError(format!(
            "no built-in profile or claims '{wanted}'; `syncprof profiles` lists them"
        ))
    })
}
