use super::*;
use crate::model::fixture;
use proptest::prelude::*;

const RECORD: usize = 1024;
const PLACES: u64 = 16;
const WINDOW: u64 = 4;

fn pledge() -> Manifest {
    Manifest {
        span_bytes: PLACES * RECORD as u64,
        record_bytes: RECORD as u64,
        window: WINDOW,
        ..fixture::pledge(7)
    }
}

/// A device, place by place.
struct Device(Vec<Vec<u8>>);

impl Device {
    fn new() -> Device {
        Device(vec![vec![0; RECORD]; PLACES as usize])
    }

    fn place(sequence: u64) -> usize {
        ((sequence - 1) % PLACES) as usize
    }

    fn write(&mut self, sequence: u64) {
        self.0[Device::place(sequence)] = record(sequence);
    }

    fn after(sequence: u64) -> Device {
        let mut device = Device::new();
        (1..=sequence).for_each(|n| device.write(n));
        device
    }

    fn compare(&self, promised: u64) -> Comparison {
        let mut comparer = Comparer::new(&pledge(), promised, false).unwrap();
        for place in self.0.iter().take(comparer.places() as usize) {
            comparer.place(Some(place));
        }
        comparer.compare()
    }
}

fn record(sequence: u64) -> Vec<u8> {
    let pledge = pledge();
    let stamp = Stamp {
        run: 7,
        sequence,
        offset_bytes: pledge.offset_bytes(sequence),
        length_bytes: RECORD as u32,
    };
    let mut bytes = vec![0; RECORD];
    stamp::write(&stamp, &mut bytes);
    bytes
}

#[test]
fn a_device_that_holds_all_is_intact() {
    let found = Device::after(40).compare(40);
    assert_eq!(
        found.counts,
        Counts {
            intact: PLACES,
            ..Counts::default()
        }
    );
    assert_eq!(found.newest, Some(40));
    let found = Device::after(3).compare(3);
    assert_eq!(
        found.counts,
        Counts {
            intact: 3,
            ..Counts::default()
        }
    );
    assert_eq!(Device::new().compare(0).counts, Counts::default());
}

/// Each kind of damage to record 36, whose place nothing newer was written to, is told as that.
#[test]
fn each_fault_is_told_as_what_it_is() {
    let mut torn = record(36);
    torn[..512].copy_from_slice(&record(20)[..512]);
    let mut other_run = vec![0; RECORD];
    let stamp = Stamp {
        run: 8,
        sequence: 36,
        offset_bytes: pledge().offset_bytes(36),
        length_bytes: RECORD as u32,
    };
    stamp::write(&stamp, &mut other_run);
    let cases = [
        (vec![0; RECORD], Fault::Lost, None),
        (torn, Fault::Torn, Some(36)),
        (record(35), Fault::Misplaced, None),
        (record(20), Fault::Stale, Some(20)),
        (other_run, Fault::Stale, None),
    ];
    for (held, fault, found_sequence) in cases {
        let mut device = Device::after(40);
        device.0[Device::place(36)] = held;
        let found = device.compare(40);
        let missing = Missing {
            sequence: 36,
            offset_bytes: pledge().offset_bytes(36),
            fault,
            found_sequence,
        };
        assert_eq!(found.missing, [missing]);
        assert_eq!((found.counts.broken(), found.counts.out_of_order), (1, 1));
        assert_eq!(found.counts.intact, PLACES - 1);
    }
}

#[test]
fn a_place_that_cannot_be_read_holds_nothing() {
    let device = Device::after(PLACES);
    let mut comparer = Comparer::new(&pledge(), PLACES, true).unwrap();
    comparer.place(None);
    device.0[1..]
        .iter()
        .for_each(|place| comparer.place(Some(place)));
    assert_eq!(comparer.compare().counts.lost, 1);
}

/// Records 41 to 44 may have been written after the last report that the witness has.
#[test]
fn what_may_have_been_in_flight_is_no_fault() {
    let mut device = Device::after(40);
    device.0[Device::place(41)] = vec![0; RECORD];
    let found = device.compare(40);
    assert_eq!((found.counts.undecided, found.counts.broken()), (1, 0));
    // But 42 is not written before 41 was acknowledged.
    device.write(42);
    let found = device.compare(40);
    assert_eq!((found.counts.undecided, found.counts.out_of_order), (0, 1));
    assert_eq!(found.missing[0].fault, Fault::OutOfOrder);
    // And no other than the next one can have been in flight.
    let mut device = Device::after(40);
    device.0[Device::place(42)] = vec![0; RECORD];
    let found = device.compare(40);
    assert_eq!((found.counts.undecided, found.counts.lost), (0, 1));
}

#[test]
fn after_a_goodbye_nothing_was_in_flight() {
    let mut device = Device::after(40);
    device.0[Device::place(41)] = vec![0; RECORD];
    let mut comparer = Comparer::new(&pledge(), 40, true).unwrap();
    device
        .0
        .iter()
        .for_each(|place| comparer.place(Some(place)));
    assert_eq!(comparer.compare().counts.lost, 1);
}

proptest! {
    /// Whatever was in flight, and however little of what was acknowledged reached the witness, an
    /// honest device has kept its promises.
    #[test]
    fn an_honest_device_is_never_accused(
        acknowledged in 0_u64..80,
        unreported in 0..=WINDOW,
        in_flight in proptest::collection::vec(0_u8..3, 2),
    ) {
        let promised = acknowledged.saturating_sub(unreported);
        // The writer doesn't run ahead of the answers by more than the window.
        prop_assume!(acknowledged < promised + WINDOW);
        let mut device = Device::after(acknowledged);
        let next = record(acknowledged + 1);
        for (index, what) in in_flight.into_iter().enumerate() {
            let sector = index * 512..(index + 1) * 512;
            let place = &mut device.0[Device::place(acknowledged + 1)];
            match what {
                0 => {}
                1 => place[sector.clone()].copy_from_slice(&next[sector]),
                _ => place[sector].fill(0xff),
            }
        }
        let found = device.compare(promised);
        prop_assert_eq!(found.counts.broken() + found.counts.out_of_order, 0);
        prop_assert!(found.missing.is_empty());
        prop_assert!(found.counts.undecided <= 1);
    }

    /// A device that lost the last writes, however many, is found out once a promised one is among
    /// them, up to what the window leaves open.
    #[test]
    fn a_device_that_lost_promised_writes_is_found_out(
        acknowledged in 20_u64..80,
        lost in 1_u64..10,
    ) {
        // So that each of them had a place of its own.
        prop_assume!(lost + WINDOW < PLACES);
        // The places of the next ones were written to as well, and nothing of that is there.
        let mut device = Device::after(acknowledged - lost);
        for next in 1..=WINDOW {
            device.0[Device::place(acknowledged + next)].fill(0);
        }
        let found = device.compare(acknowledged);
        prop_assert_eq!(found.counts.broken(), lost + WINDOW - 1);
        prop_assert_eq!(found.counts.undecided, 1);
        let mut device = Device::after(acknowledged - lost);
        let found = device.compare(acknowledged);
        prop_assert_eq!(found.counts.broken(), lost);
        prop_assert_eq!(found.counts.out_of_order, 0);
        device.write(acknowledged);
        let found = device.compare(acknowledged);
        prop_assert_eq!(found.counts.broken(), lost - 1);
        prop_assert_eq!(found.counts.out_of_order, lost - 1);
    }
}
