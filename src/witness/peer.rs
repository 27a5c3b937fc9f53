//! The client's side of a conversation.

use std::io::{self, BufReader};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::codec::{self, CodecError};
use super::message::{Reply, Request, VERSION};
use crate::model::durability::{Counts, DeviceKey, Manifest, Tally};

/// A witness that doesn't answer in this is not there.
const PATIENCE: Duration = Duration::from_secs(10);
/// A run waits so long for a witness that went away, to begin anew or to be reached again.
const RETURN: Duration = Duration::from_secs(60);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

/// Why a witness could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No connection.
    #[error(
        "cannot reach the witness at {address}: {source}; start it there with `syncprof witness \
         --listen ADDRESS:PORT`"
    )]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The connection was lost.
    #[error("the witness at {address}: {source}")]
    Lost {
        /// Where it is.
        address: String,
        /// How.
        source: CodecError,
    },
    /// It answered, but not what it was asked.
    #[error(
        "the witness at {address} answered what doesn't fit; is it a syncprof of this version?"
    )]
    Confused {
        /// Where it is.
        address: String,
    },
    /// It said no.
    #[error("the witness at {address} refused: {why}")]
    Refused {
        /// Where it is.
        address: String,
        /// What it said.
        why: String,
    },
    /// A signal came.
    #[error("interrupted while waiting for the witness")]
    Interrupted,
}

/// A run that a witness knows.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was said when it began.
    pub pledge: Manifest,
    /// The last record that was promised; none is 0.
    pub promised: u64,
    /// It said goodbye.
    pub ended: bool,
    /// The newest run of the device that began after it and may have overwritten its records.
    pub later: Option<String>,
}

/// A conversation with a witness.
#[derive(Debug)]
pub struct Peer {
    address: String,
    reader: BufReader<TcpStream>,
}

impl Peer {
    /// Calls the witness at `address`, a host and a port.
    pub fn connect(address: &str) -> Result<Peer, PeerError> {
        let unreachable = |source| PeerError::Unreachable {
            address: address.to_owned(),
            source,
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in address.to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&place, PATIENCE) {
                Ok(stream) => {
                    let set = stream
                        .set_nodelay(true)
                        .and_then(|()| codec::watch(&stream))
                        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                    set.map_err(unreachable)?;
                    return Ok(Peer {
                        address: address.to_owned(),
                        reader: BufReader::new(stream),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// The run with this id, or else the newest one that wrote to the device.
    pub fn find(
        &mut self,
        id: Option<String>,
        device: DeviceKey,
    ) -> Result<Option<Found>, PeerError> {
        let request = Request::Find {
            version: VERSION,
            id,
            device: Some(device),
        };
        match self.ask(&request)? {
            Reply::Found {
                pledge,
                promised,
                ended,
                later,
            } if pledge.fault().is_none() => Ok(Some(Found {
                pledge: *pledge,
                promised,
                ended,
                later,
            })),
            Reply::Unknown => Ok(None),
            _ => Err(self.confused()),
        }
    }

    /// Tells what came of a comparison, made in the boot `boot_id`; gives what is then known of the
    /// device.
    pub fn checked(
        &mut self,
        id: String,
        boot_id: String,
        counts: Counts,
    ) -> Result<Tally, PeerError> {
        let request = Request::Checked {
            version: VERSION,
            id,
            boot_id,
            counts,
        };
        match self.ask(&request)? {
            Reply::Noted { tally } => Ok(tally),
            _ => Err(self.confused()),
        }
    }

    /// Begins a run, or goes on with one. Gives the last record that the witness has, or none if it knows
    /// that the run is over.
    fn begin(&mut self, pledge: &Manifest) -> Result<Option<u64>, PeerError> {
        let request = Request::Begin {
            version: VERSION,
            pledge: pledge.clone(),
        };
        match self.ask(&request)? {
            Reply::Begun { sequence } => Ok(Some(sequence)),
            Reply::Goodbye => Ok(None),
            _ => Err(self.confused()),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, PeerError> {
        codec::write(self.reader.get_mut(), request).map_err(|error| self.lost(error.into()))?;
        match codec::read(&mut self.reader) {
            Ok(Some(Reply::Refused { why })) => Err(PeerError::Refused {
                address: self.address.clone(),
                why,
            }),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.lost(CodecError::Cut)),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, source: CodecError) -> PeerError {
        PeerError::Lost {
            address: self.address.clone(),
            source,
        }
    }

    fn confused(&self) -> PeerError {
        PeerError::Confused {
            address: self.address.clone(),
        }
    }
}

/// What the thread that hears a witness's answers tells the one that writes.
#[derive(Debug, Default)]
struct Answers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// All reports up to this one are on the witness's disk.
    stored: u64,
    /// Why no more answers come.
    ended: Option<End>,
}

#[derive(Debug)]
enum End {
    /// The connection broke: it may be had again.
    Broken,
    /// The witness knows that the run is over.
    Goodbye,
    /// The witness doesn't want the run.
    Refused(String),
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears until no more can be heard.
    fn hear(&self, mut reader: BufReader<TcpStream>) {
        let end = loop {
            match codec::read(&mut reader) {
                Ok(Some(Reply::Stored { sequence })) => {
                    let mut state = self.lock();
                    state.stored = state.stored.max(sequence);
                    self.changed.notify_all();
                }
                Ok(Some(Reply::Goodbye)) => break End::Goodbye,
                Ok(Some(Reply::Refused { why })) => break End::Refused(why),
                Ok(Some(_)) => break End::Refused("an answer that doesn't fit".to_owned()),
                Ok(None) | Err(_) => break End::Broken,
            }
        };
        self.lock().ended = Some(end);
        self.changed.notify_all();
    }
}

/// A run's reports on their way to the witness. A connection that breaks is made anew.
#[derive(Debug)]
pub struct Reports<'a> {
    address: String,
    pledge: Manifest,
    stream: TcpStream,
    answers: Arc<Answers>,
    /// The last record that was reported.
    sent: u64,
    stop: &'a AtomicBool,
}

impl<'a> Reports<'a> {
    /// Begins a run. `stop` ends every wait.
    pub fn begin(
        address: &str,
        pledge: &Manifest,
        stop: &'a AtomicBool,
    ) -> Result<Reports<'a>, PeerError> {
        let (stream, answers) = open(address, pledge)?;
        Ok(Reports {
            address: address.to_owned(),
            pledge: pledge.clone(),
            stream,
            answers,
            sent: 0,
            stop,
        })
    }

    /// Reports that the device acknowledged record `sequence` and all before, and doesn't wait for the
    /// answer.
    pub fn wrote(&mut self, sequence: u64) -> Result<(), PeerError> {
        self.sent = sequence;
        match codec::write(&mut self.stream, &Request::Wrote { sequence }) {
            Ok(()) => Ok(()),
            // That reports it, too.
            Err(_) => self.reconnect(Some(self.stop)),
        }
    }

    /// Waits until record `sequence` may be written: until no more than the window's reports would be
    /// unanswered once it is.
    pub fn room_for(&mut self, sequence: u64) -> Result<(), PeerError> {
        self.await_stored(sequence.saturating_sub(self.pledge.window))
    }

    /// Waits until the witness has all that was reported on its disk.
    pub fn settle(&mut self) -> Result<(), PeerError> {
        self.await_stored(self.sent)
    }

    /// Says goodbye: nothing was cut. It is the last report, too. Whether `stop` is set or not, the
    /// witness is waited for, and looked for if it went away: a run whose goodbye is lost looks like one
    /// that was cut off.
    pub fn end(mut self) -> Result<(), PeerError> {
        let sequence = self.sent;
        let begun = Instant::now();
        while begun.elapsed() < RETURN {
            // A connection that broke takes no more; the answer, which then doesn't come, tells.
            let _ = codec::write(&mut self.stream, &Request::End { sequence });
            let said = Instant::now();
            let answers = Arc::clone(&self.answers);
            let mut state = answers.lock();
            while state.ended.is_none() && said.elapsed() < PATIENCE {
                state = self.wait(state);
            }
            match &state.ended {
                Some(End::Goodbye) => return Ok(()),
                Some(End::Refused(why)) => return Err(self.refused(why.clone())),
                Some(End::Broken) | None => {}
            }
            drop(state);
            self.reconnect(None)?;
        }
        Err(PeerError::Lost {
            address: self.address.clone(),
            source: CodecError::Cut,
        })
    }

    fn await_stored(&mut self, sequence: u64) -> Result<(), PeerError> {
        loop {
            let answers = Arc::clone(&self.answers);
            let mut state = answers.lock();
            while state.stored < sequence && state.ended.is_none() {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(PeerError::Interrupted);
                }
                state = self.wait(state);
            }
            if state.stored >= sequence {
                return Ok(());
            }
            match &state.ended {
                Some(End::Refused(why)) => return Err(self.refused(why.clone())),
                Some(End::Goodbye) => return Err(self.refused("the run is over".to_owned())),
                Some(End::Broken) | None => {}
            }
            drop(state);
            self.reconnect(Some(self.stop))?;
        }
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = match self.answers.changed.wait_timeout(state, LOOK) {
            Ok(waited) => waited,
            Err(poisoned) => poisoned.into_inner(),
        };
        waited.0
    }

    /// Looks for the witness again, and reports anew what may not have reached it. `stop` ends that.
    fn reconnect(&mut self, stop: Option<&AtomicBool>) -> Result<(), PeerError> {
        let begun = Instant::now();
        // Ends the thread that hears, and the witness's side, if the connection is only slow.
        let _ = self.stream.shutdown(Shutdown::Both);
        loop {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(PeerError::Interrupted);
            }
            let again = open(&self.address, &self.pledge).and_then(|(mut stream, answers)| {
                if answers.lock().ended.is_some() {
                    return Ok((stream, answers));
                }
                let sequence = self.sent;
                let sent = codec::write(&mut stream, &Request::Wrote { sequence });
                sent.map_err(|error| PeerError::Lost {
                    address: self.address.clone(),
                    source: error.into(),
                })?;
                Ok((stream, answers))
            });
            match again {
                Ok((stream, answers)) => {
                    self.stream = stream;
                    self.answers = answers;
                    return Ok(());
                }
                Err(error @ (PeerError::Refused { .. } | PeerError::Confused { .. })) => {
                    return Err(error);
                }
                Err(error) if begun.elapsed() > RETURN => return Err(error),
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    fn refused(&self, why: String) -> PeerError {
        PeerError::Refused {
            address: self.address.clone(),
            why,
        }
    }
}

impl Drop for Reports<'_> {
    fn drop(&mut self) {
        // Ends the thread that hears, too.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A connection on which a run goes on, and what is heard there.
fn open(address: &str, pledge: &Manifest) -> Result<(TcpStream, Arc<Answers>), PeerError> {
    let mut peer = Peer::connect(address)?;
    let begun = peer.begin(pledge)?;
    let answers = Arc::new(Answers::default());
    let mut state = answers.lock();
    state.stored = begun.unwrap_or(0);
    state.ended = begun.is_none().then_some(End::Goodbye);
    drop(state);
    let stream = peer.reader.get_ref();
    // An answer comes when there was a report, which a stalled device can hold up for long.
    let stream = stream
        .set_read_timeout(None)
        .and_then(|()| stream.try_clone())
        .map_err(|error| peer.lost(error.into()))?;
    if begun.is_some() {
        let hearing = Arc::clone(&answers);
        thread::spawn(move || hearing.hear(peer.reader));
    }
    Ok((stream, answers))
}
