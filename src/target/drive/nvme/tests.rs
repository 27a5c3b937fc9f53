use super::*;

/// Captured from an emulated drive (QEMU 7.2, NVMe 1.4): see tests/fixtures/nvme/README.md.
const CONTROLLER: &[u8] = include_bytes!("../../../../tests/fixtures/nvme/id-ctrl.bin");
const NAMESPACE: &[u8] = include_bytes!("../../../../tests/fixtures/nvme/id-ns.bin");
const SMART: &[u8] = include_bytes!("../../../../tests/fixtures/nvme/smart-log.bin");
const ERRORS: &[u8] = include_bytes!("../../../../tests/fixtures/nvme/error-log.bin");

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_captured_controller_reads_as_nvme_cli_reads_it() {
    let found = controller(CONTROLLER).unwrap();
    assert_eq!(
        found,
        Controller {
            version: Some("1.4.0".to_owned()),
            lists_logs: false,
            cache_present: true,
            warning_temperature_c: Some(70),
            critical_temperature_c: Some(100),
        }
    );
}

#[test]
fn a_captured_namespace_has_eight_formats() {
    let found = formats(NAMESPACE);
    let kinds: Vec<(u64, u64)> = found
        .iter()
        .map(|format| (format.block_bytes, format.metadata_bytes))
        .collect();
    let of = |block| [0, 8, 16, 64].map(|metadata| (block, metadata));
    assert_eq!(kinds, [of(512), of(4096)].concat());
    let in_use: Vec<bool> = found.iter().map(|format| format.in_use).collect();
    assert_eq!(
        in_use,
        [true, false, false, false, false, false, false, false]
    );
}

#[test]
fn a_captured_smart_log_reads_as_nvme_cli_reads_it() {
    let found = smart(SMART).unwrap();
    assert_eq!(found.temperature_c, Some(50));
    assert_eq!((found.spare_percent, found.used_percent), (0, 0));
    assert_eq!(found.unsafe_shutdowns, Some(0));
    assert_eq!(found.host_written_bytes.unwrap() % DATA_UNIT_BYTES, 0);
    assert_eq!(newest_error(ERRORS), None);
}

#[test]
fn every_field_of_a_smart_log_has_its_place() {
    let mut data = vec![0; 512];
    put(&mut data, 0, &[0x04, 0x4E, 0x01, 93, 10, 42]);
    for (index, at) in (32..192).step_by(16).enumerate() {
        put(&mut data, at, &(index as u128 + 1).to_le_bytes());
    }
    for (index, at) in [192, 196, 216, 220, 224, 228].into_iter().enumerate() {
        put(&mut data, at, &(100_u32 << index).to_le_bytes());
    }
    let expected = Health {
        critical_warning: 4,
        temperature_c: Some(61),
        spare_percent: 93,
        spare_threshold_percent: 10,
        used_percent: 42,
        host_read_bytes: Some(512_000),
        host_written_bytes: Some(1_024_000),
        host_writes: Some(4),
        media_written_bytes: None,
        capacitor_percent: None,
        power_cycles: Some(6),
        power_on_hours: Some(7),
        unsafe_shutdowns: Some(8),
        media_errors: Some(9),
        error_log_entries: Some(10),
        hot_minutes: 100,
        critical_minutes: 200,
        throttlings: 400 + 800,
        throttled_seconds: 1600 + 3200,
    };
    assert_eq!(smart(&data), Some(expected));
    // More than 64 bits, and more than 64 bits once counted in bytes.
    put(&mut data, 48, &(1_u128 << 64).to_le_bytes());
    put(&mut data, 32, &u128::from(u64::MAX).to_le_bytes());
    let found = smart(&data).unwrap();
    assert_eq!(
        (found.host_written_bytes, found.host_read_bytes),
        (None, None)
    );
    assert_eq!(smart(&data[..231]), None);
}

#[test]
fn only_a_page_with_the_right_guid_tells_what_the_media_took() {
    let mut page = vec![0; 512];
    put(&mut page, 0, &123_456_789_u128.to_le_bytes());
    put(&mut page, 128, &100_u16.to_le_bytes());
    let mut health = Health::default();
    add_ocp(&mut health, &page);
    assert_eq!(health, Health::default());
    put(&mut page, 496, &OCP_GUID);
    add_ocp(&mut health, &page[..500]);
    assert_eq!(health, Health::default());
    add_ocp(&mut health, &page);
    assert_eq!(health.media_written_bytes, Some(123_456_789));
    assert_eq!(health.capacitor_percent, Some(100));
    put(&mut page, 128, &[0xFF, 0xFF]);
    add_ocp(&mut health, &page);
    assert_eq!(health.capacitor_percent, None);
}

#[test]
fn more_than_sixteen_formats_take_the_upper_bits() {
    let mut data = vec![0; 4096];
    data[25] = 17;
    data[26] = 0x01 | 1 << 5;
    put(&mut data, 128 + 4, &[0, 0, 9, 0]);
    put(&mut data, 128 + 4 * 17, &[8, 0, 12, 2]);
    let rated = NvmeFormat {
        block_bytes: 4096,
        metadata_bytes: 8,
        performance_rank: 2,
        in_use: true,
    };
    let found = formats(&data);
    assert_eq!((found.len(), found[1]), (2, rated));
    // With 16 or fewer they mean nothing.
    data[25] = 15;
    assert!(formats(&data)[0].in_use);
    assert_eq!(formats(&data[..20]), []);
    data[25] = 0xFF;
    put(&mut data, 128, &[0xFF; 4]);
    assert_eq!(formats(&data).len(), 2, "a block of 2^255 bytes is none");
}

#[test]
fn an_error_log_entry_tells_its_status() {
    let mut entry = vec![0; 64];
    put(&mut entry, 0, &7_u64.to_le_bytes());
    // Invalid field in command (02h), with "do not retry" and the phase tag.
    put(&mut entry, 12, &(0x4002_u16 << 1 | 1).to_le_bytes());
    put(&mut entry, 24, &1_u32.to_le_bytes());
    let expected = NvmeError {
        number: 7,
        status: 2,
        nsid: 1,
    };
    assert_eq!(newest_error(&entry), Some(expected));
}

#[test]
fn a_list_of_log_pages_says_which_there_are() {
    let mut list = vec![0; 1024];
    list[4 * OCP_PAGE] = 1;
    assert!(is_listed(&list, OCP_PAGE));
    assert!(!is_listed(&list, 0xC1));
    assert!(!is_listed(&list[..16], OCP_PAGE));
}
