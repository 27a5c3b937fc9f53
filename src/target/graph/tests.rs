//! Made-up stacks, and stacks of all sorts.

use super::*;
use proptest::prelude::*;

fn device(minor: u32) -> Node {
    Node::Device(DevId { major: 8, minor })
}

fn graph(maps: &[(u32, Map)]) -> Graph {
    let mut graph = Graph::default();
    for (upper, map) in maps {
        graph.add(device(*upper), map.clone());
    }
    graph
}

fn meet(graph: &Graph, one: u32, other: u32) -> Option<(Node, Range<u64>)> {
    meeting(&graph.project(&device(one)), &graph.project(&device(other)))
}

#[test]
fn maps_over_the_same_sectors_meet_and_others_do_not() {
    let graph = graph(&[
        (1, Map::run(0, 100, device(0), 0)),
        (2, Map::run(0, 100, device(0), 50)),
        (3, Map::run(0, 100, device(0), 150)),
        (4, Map::run(0, 10, device(3), 90)),
    ]);
    assert_eq!(meet(&graph, 1, 2), Some((device(0), 50..100)));
    assert_eq!(meet(&graph, 1, 3), None);
    assert_eq!(meet(&graph, 2, 4), None);
    assert_eq!(meet(&graph, 0, 4), Some((device(0), 240..250)));
    assert_eq!(meet(&graph, 1, 1), Some((device(1), ALL)));
}

#[test]
fn two_paths_to_a_drive_meet_where_their_partitions_do() {
    let drive = || Node::Drive("naa.5000".into());
    let graph = graph(&[
        (0, Map::run(0, u64::MAX, drive(), 0)),
        (16, Map::run(0, u64::MAX, drive(), 0)),
        (1, Map::run(0, 100, device(0), 0)),
        (17, Map::run(0, 100, device(16), 0)),
        (18, Map::run(0, 100, device(16), 100)),
    ]);
    assert_eq!(meet(&graph, 1, 17), Some((drive(), 0..100)));
    assert_eq!(meet(&graph, 1, 18), None);
    assert_eq!(meet(&graph, 1, 16), Some((drive(), 0..100)));
}

#[test]
fn a_map_that_is_no_plain_range_lies_in_all_of_its_place() {
    let graph = graph(&[
        (1, Map::anywhere(0..100, device(0), ALL)),
        (2, Map::run(0, 10, device(0), 1 << 40)),
        (3, Map::run(0, 10, device(1), 1000)),
    ]);
    assert!(meet(&graph, 1, 2).is_some());
    assert_eq!(meet(&graph, 3, 2), None, "past the map's end lies nothing");
}

#[test]
fn volumes_beside_each_other_on_an_array_are_apart_on_its_members() {
    let graph = graph(&[
        (1, Map::anywhere(ALL, device(0), ALL)),
        (2, Map::run(0, 100, device(1), 0)),
        (3, Map::run(0, 100, device(1), 100)),
        (4, Map::run(0, 100, device(1), 50)),
    ]);
    assert_eq!(meet(&graph, 2, 3), None);
    assert_eq!(meet(&graph, 2, 4), Some((device(1), 50..100)));
    assert!(meet(&graph, 2, 0).is_some(), "whoever writes the member");
}

#[test]
fn shares_of_one_pool_are_apart_and_whoever_goes_round_it_is_not() {
    let share = |id| Map {
        share: Some(id),
        ..Map::anywhere(ALL, device(1), ALL)
    };
    let graph = graph(&[
        (1, Map::anywhere(ALL, device(0), ALL)),
        (2, share(0)),
        (3, share(1)),
        (4, share(1)),
    ]);
    assert_eq!(meet(&graph, 2, 3), None);
    assert!(meet(&graph, 3, 4).is_some(), "the same volume twice");
    assert!(meet(&graph, 2, 1).is_some());
    assert!(meet(&graph, 2, 0).is_some());
}

#[test]
fn a_ring_ends() {
    let graph = graph(&[
        (1, Map::run(0, 100, device(2), 0)),
        (2, Map::run(0, 100, device(1), 0)),
        (2, Map::run(0, 100, device(0), 0)),
    ]);
    assert_eq!(meet(&graph, 1, 0), Some((device(0), 0..100)));
}

/// Maps from each of eight devices down to lower ones.
fn maps() -> impl Strategy<Value = Vec<(u32, Map)>> {
    let one = (1_u32..8).prop_flat_map(|upper| {
        let range = (0_u64..64, 1_u64..64);
        (
            Just(upper),
            0..upper,
            range,
            0_u64..64,
            any::<bool>(),
            proptest::option::of(0_u64..3),
        )
            .prop_map(|(upper, lower, (start, length), at, in_order, share)| {
                let mut map = Map::run(start, length, device(lower), at);
                map.in_order = in_order;
                map.share = share;
                (upper, map)
            })
    });
    proptest::collection::vec(one, 0..16)
}

proptest! {
    #[test]
    fn who_meets_whom_is_the_same_from_both_sides(maps in maps(), one in 0_u32..8, other in 0_u32..8) {
        let graph = graph(&maps);
        let (there, back) = (meet(&graph, one, other), meet(&graph, other, one));
        prop_assert_eq!(there.is_some(), back.is_some());
        if one == other {
            prop_assert!(there.is_some());
        }
    }

    #[test]
    fn bytes_that_are_followed_one_by_one_meet_where_ranges_do(
        maps in maps(), one in 0_u32..8, other in 0_u32..8,
    ) {
        let maps: Vec<_> = maps
            .into_iter()
            .map(|(upper, map)| (upper, Map { in_order: true, share: None, ..map }))
            .collect();
        let graph = graph(&maps);
        let ends = |node: u32| -> HashSet<(Node, u64)> {
            let mut waiting: Vec<(Node, u64)> = (0..300).map(|byte| (device(node), byte)).collect();
            let mut seen = HashSet::new();
            while let Some((node, byte)) = waiting.pop() {
                if seen.insert((node.clone(), byte)) {
                    for map in graph.lower(&node) {
                        waiting.extend(map.below(&(byte..byte + 1)).map(|at| (map.lower.clone(), at.start)));
                    }
                }
            }
            seen
        };
        let shares = ends(one).intersection(&ends(other)).next().is_some();
        prop_assert_eq!(meet(&graph, one, other).is_some(), shares);
    }
}
