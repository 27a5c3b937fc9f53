//! The witness's side of the conversations: a thread for each.
//!
//! Peers may be anything: slow, silent, broken off or no peers at all. Each has its own thread and a
//! bounded line; a peer that is silent for [`GREETING`] outside a run is left, and so is one that doesn't
//! take its answer.

use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::codec::{self, CodecError};
use super::message::{Reply, Request, VERSION};
use super::store::{Log, Run, Store, StoreError};
use crate::model::durability::Manifest;

/// A peer must go on saying what it wants, and take its answers, within this.
const GREETING: Duration = Duration::from_secs(10);
/// The most conversations at once: each has up to three descriptors, of which a process may have 1024
/// unless told otherwise.
const MOST_PEERS: usize = 256;
/// How often the listener looks whether it shall end.
const LOOK_MS: u8 = 100;

/// A witness that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    store: Store,
}

/// A conversation that goes on.
#[derive(Debug)]
struct Peer {
    from: SocketAddr,
    stream: TcpStream,
    /// It began a run.
    is_run: Arc<AtomicBool>,
}

/// Why a conversation ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("its own state: {0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Codec(CodecError::Io(error))
    }
}

impl Server {
    /// Listens at `address`, such as `127.0.0.1:7320`.
    pub fn bind(address: &str, store: Store) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, store })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set. `tell` is called with a line for each thing that happens, from any
    /// thread; what peers said is in it as they said it.
    pub fn run(&self, stop: &AtomicBool, tell: &(dyn Fn(String) + Sync)) -> io::Result<()> {
        let open = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let result = self.accept(stop, |stream, from| {
                if !make_room(&mut lock(&open)) {
                    return tell(format!("{from}: refused: {MOST_PEERS} runs go on already"));
                }
                let open = &open;
                let is_run = Arc::new(AtomicBool::new(false));
                let begun = stream.try_clone().and_then(|held| {
                    lock(open).push(Peer {
                        from,
                        stream: held,
                        is_run: Arc::clone(&is_run),
                    });
                    thread::Builder::new().spawn_scoped(scope, move || {
                        if let Err(error) = self.converse(&stream, from, &is_run, tell) {
                            refuse(&stream, &error);
                            tell(format!("{from}: {error}"));
                        }
                        lock(open).retain(|peer| peer.from != from);
                    })
                });
                if let Err(error) = begun {
                    lock(open).retain(|peer| peer.from != from);
                    tell(format!("{from}: refused: {error}"));
                }
            });
            // Ends the conversations that wait for their peers: a read then sees the end.
            for peer in lock(&open).iter() {
                let _ = peer.stream.shutdown(Shutdown::Both);
            }
            result
        })
    }

    fn accept(
        &self,
        stop: &AtomicBool,
        mut begin: impl FnMut(TcpStream, SocketAddr),
    ) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let mut waiting = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::from(LOOK_MS)) {
                Ok(0) | Err(Errno::EINTR) => continue,
                other => other?,
            };
            match self.listener.accept() {
                Ok((stream, from)) => begin(stream, from),
                // A peer that is gone already, or no descriptor for the moment (accept(2)).
                Err(_) => thread::sleep(Duration::from_millis(LOOK_MS.into())),
            }
        }
        Ok(())
    }

    fn converse(
        &self,
        stream: &TcpStream,
        from: SocketAddr,
        is_run: &AtomicBool,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Ended> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        codec::watch(stream)?;
        stream.set_read_timeout(Some(GREETING))?;
        stream.set_write_timeout(Some(GREETING))?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = codec::read(&mut reader)? {
            let answered = match request {
                Request::Begin { version, pledge } => check_version(version)
                    .and_then(|()| {
                        is_run.store(true, Ordering::Relaxed);
                        self.follow(&mut reader, from, &pledge, tell)
                    })
                    .and_then(|()| Ok(stream.set_read_timeout(Some(GREETING))?)),
                Request::Find {
                    version,
                    id,
                    device,
                } => check_version(version).and_then(|()| {
                    let run = match (id, device) {
                        (Some(id), _) => self.store.find(&id)?,
                        (None, Some(device)) => self.store.newest(&device)?,
                        (None, None) => None,
                    };
                    let Some(run) = run else {
                        return say(stream, &Reply::Unknown);
                    };
                    let later = self.store.later(&run)?;
                    say(stream, &found(run, later))
                }),
                Request::Checked {
                    version,
                    id,
                    boot_id,
                    counts,
                } => check_version(version).and_then(|()| {
                    let tally = self.store.checked(&id, boot_id, counts)?;
                    tell(format!(
                        "{from}: run {id} was compared: {} intact, {} not there, {} out of order",
                        counts.intact,
                        counts.broken(),
                        counts.out_of_order
                    ));
                    say(stream, &Reply::Noted { tally })
                }),
                Request::Wrote { .. } | Request::End { .. } => {
                    Err(Ended::Refused("a report without a run".to_owned()))
                }
            };
            answered?;
        }
        Ok(())
    }

    /// A run: until it says goodbye or its connection is lost.
    fn follow(
        &self,
        reader: &mut BufReader<&TcpStream>,
        from: SocketAddr,
        pledge: &Manifest,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(), Ended> {
        if let Some(fault) = pledge.fault() {
            return Err(Ended::Refused(fault));
        }
        let stream = *reader.get_ref();
        let Some((mut log, mut stored)) = self.store.begin(pledge)? else {
            // The goodbye came, and its answer was lost.
            return say(stream, &Reply::Goodbye);
        };
        stream.set_read_timeout(None)?;
        say(stream, &Reply::Begun { sequence: stored })?;
        let id = &pledge.id;
        let (host, device) = (&pledge.device.hostname, &pledge.device.name);
        let begins = match stored {
            0 => "begins".to_owned(),
            _ => format!("goes on after {stored} records"),
        };
        tell(format!("{from}: run {id} of {device} on {host} {begins}"));
        let ending = reports(reader, pledge, &mut log, &mut stored);
        let how = match &ending {
            Ok(true) => "said goodbye",
            _ => "was cut off",
        };
        tell(format!(
            "{from}: run {id} {how}; {stored} records were promised"
        ));
        ending.map(drop)
    }
}

/// Takes a run's reports; whether it said goodbye.
fn reports(
    reader: &mut BufReader<&TcpStream>,
    pledge: &Manifest,
    log: &mut Log,
    stored: &mut u64,
) -> Result<bool, Ended> {
    let stream = *reader.get_ref();
    let mut heard = *stored;
    loop {
        let Some(request) = codec::read(reader)? else {
            return Ok(false);
        };
        let (sequence, is_last) = match request {
            Request::Wrote { sequence } => (sequence, false),
            Request::End { sequence } => (sequence, true),
            _ => return Err(Ended::Refused("not a report".to_owned())),
        };
        if sequence < heard || sequence - *stored > pledge.window {
            let text = format!(
                "a report of record {sequence} after {heard}, with {} unanswered at most",
                pledge.window
            );
            return Err(Ended::Refused(text));
        }
        heard = sequence;
        if is_last {
            log.ended(heard)?;
        } else if reader.buffer().contains(&b'\n') {
            // More reports are here already: one trip to the disk serves them all.
            continue;
        } else {
            log.wrote(heard)?;
        }
        *stored = heard;
        if is_last {
            say(stream, &Reply::Goodbye)?;
            return Ok(true);
        }
        say(stream, &Reply::Stored { sequence: heard })?;
    }
}

/// Makes room for one peer more: the one that came first of those without a run goes, so that peers which
/// say nothing shut nobody out. False if all have runs.
fn make_room(open: &mut Vec<Peer>) -> bool {
    if open.len() < MOST_PEERS {
        return true;
    }
    let idle = |peer: &Peer| !peer.is_run.load(Ordering::Relaxed);
    let Some(at) = open.iter().position(idle) else {
        return false;
    };
    let _ = open.remove(at).stream.shutdown(Shutdown::Both);
    true
}

fn check_version(version: u32) -> Result<(), Ended> {
    if version == VERSION {
        return Ok(());
    }
    Err(Ended::Refused(format!(
        "this witness speaks version {VERSION} of the protocol, and not {version}: use the same syncprof \
         on both machines"
    )))
}

fn found(run: Run, later: Option<String>) -> Reply {
    Reply::Found {
        pledge: Box::new(run.pledge),
        promised: run.promised,
        ended: run.ended,
        later,
    }
}

fn say(mut stream: &TcpStream, reply: &Reply) -> Result<(), Ended> {
    Ok(codec::write(&mut stream, reply)?)
}

/// Tells the peer why the conversation ends, if it still listens.
fn refuse(stream: &TcpStream, error: &Ended) {
    let _ = say(
        stream,
        &Reply::Refused {
            why: error.to_string(),
        },
    );
}

/// A thread that panicked left nothing half done in it: streams are added and removed whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
