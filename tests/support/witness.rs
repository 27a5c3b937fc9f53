//! A witness, and a run before it.

use std::io::Read;
use std::path::PathBuf;
use std::process::ChildStdout;

use nix::sys::signal::Signal;

use super::running::Running;
use super::{Loop, Program, Ran};

/// A witness that runs.
pub struct Witness {
    pub child: Running,
    pub address: String,
    pub state: PathBuf,
}

impl Witness {
    pub fn new(program: &Program) -> Witness {
        let state = program.state().join("kept");
        Witness::at(program, "127.0.0.1:0", state)
    }

    pub fn at(program: &Program, listen: &str, state: PathBuf) -> Witness {
        let args = [
            "witness",
            "--listen",
            listen,
            "--state",
            state.to_str().unwrap(),
        ];
        let mut child = program.start(&args);
        let line = first_line(child.stdout.as_mut().unwrap());
        let address = line
            .split_whitespace()
            .find(|word| word.starts_with("127.0.0.1:"))
            .unwrap_or_else(|| panic!("no address in {line:?}"))
            .to_owned();
        Witness {
            child,
            address,
            state,
        }
    }

    /// Ends it as a loss of power would, and starts it again at the same address.
    pub fn reborn(self, program: &Program) -> Witness {
        self.reborn_after(program, || ())
    }

    pub fn reborn_after(self, program: &Program, meanwhile: impl FnOnce()) -> Witness {
        self.child.killed();
        meanwhile();
        Witness::at(program, &self.address, self.state)
    }

    pub fn ended(self) -> Ran {
        self.child.signal(Signal::SIGTERM);
        self.child.outcome()
    }
}

/// The first line, read byte by byte, so that the rest stays for whoever reads on.
pub fn first_line(stdout: &mut ChildStdout) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && stdout.read(&mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// The arguments of a run that promises before the witness there.
pub fn promise<'a>(device: &'a Loop, address: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = [
        "durability",
        device.node(),
        "--witness",
        address,
        "--overwrite",
        "--confirm",
        device.name(),
        "--span",
        "1m",
    ];
    [&args, more].concat()
}
