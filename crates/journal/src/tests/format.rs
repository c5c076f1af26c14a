//! The log format is stable: every version must be able to read `golden.jsonl`, which the first version wrote.

use super::{event, id, manager, opened, read, session, stored};
use crate::event_json::{parse_canonical, read_event};
use crate::line::{self, BadLine, LinePosition};
use crate::new_session_id;
use crate::state_dir_mapping::StateDirMapping;
use althing_disk::sim::SimDisk;
use althing_protocol::{Event, Fact, Journal, Phase, Seq, Timestamp};

const GOLDEN: &str = include_str!("golden.jsonl");

#[test]
fn a_log_of_the_first_release_reads_as_it_was_written() {
    let disk = SimDisk::new(0);
    drop(manager(&disk).create(&id()).unwrap());
    disk.put(&super::log_path(), GOLDEN.as_bytes()).unwrap();
    let read = manager(&disk).read(&id()).unwrap();
    assert_eq!(read.damage, None);
    let phase = |phase| Fact::PhaseChanged { phase };
    let expected = [
        event(1, None, opened()),
        event(2, Some("r1"), phase(Phase::Voting)),
        event(3, Some("r1"), phase(Phase::Done)),
        event(4, None, Fact::SessionClosed {}),
    ];
    assert_eq!(read.events, expected);
    let (_, bytes) = stored(&expected, &[&expected[..1], &expected[1..3], &expected[3..]]);
    assert_eq!(String::from_utf8(bytes).unwrap(), GOLDEN, "the log format changed");
}

#[test]
fn a_line_is_the_events_json_with_a_checksum_of_everything_before_it() {
    let event = event(7, Some("r1"), Fact::SessionClosed {});
    let mut line = Vec::new();
    line::encode(&event, Seq(7), &StateDirMapping::default(), &mut line).unwrap();
    let (text, json) = (String::from_utf8(line).unwrap(), serde_json::to_string(&event).unwrap());
    let (head, tail) = text.split_at(text.find(",\"crc\":").unwrap());
    assert_eq!(format!("{head}}}"), json);
    assert_eq!(tail, format!(",\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(head.as_bytes())));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value.as_object().unwrap().keys().next_back().unwrap(), "crc");
    assert_eq!(line::decode(text.trim_end().as_bytes(), &StateDirMapping::default()).unwrap(), *event);
    assert_eq!(line::decode(json.as_bytes(), &StateDirMapping::default()), Err(BadLine::Torn));
    assert_eq!(
        line::decode(text.trim_end().replace("r1", "r2").as_bytes(), &StateDirMapping::default()),
        Err(BadLine::Checksum)
    );
}

#[test]
fn the_fast_reader_and_serde_read_the_same_event() {
    for event in session(40) {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(parse_canonical(&line).as_ref(), Some(&*event), "{line}");
        let by_serde: Event = serde_json::from_str(&line).unwrap();
        assert_eq!(by_serde, *event, "{line}");
        // If the fields are in another order, serde parses the line.
        let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        let seq = fields.shift_remove("seq").unwrap();
        fields.insert("seq".to_owned(), seq);
        let moved = serde_json::Value::from(fields).to_string();
        assert_eq!((parse_canonical(&moved), read_event(&moved).unwrap()), (None, (*event).clone()));
    }
}

#[test]
fn later_lines_of_an_append_name_its_first_event() {
    let event = event(12, None, Fact::SessionClosed {});
    let mut line = Vec::new();
    line::encode(&event, Seq(9), &StateDirMapping::default(), &mut line).unwrap();
    let text = String::from_utf8(line).unwrap();
    assert!(text.contains("\"data\":{},\"batch\":9,\"crc\":\""), "{text}");
    assert_eq!(line::decode(text.trim_end().as_bytes(), &StateDirMapping::default()).unwrap(), *event);
    assert_eq!(
        line::position(text.trim_end().as_bytes()),
        Some(LinePosition { seq: Seq(12), batch: Seq(9) })
    );
}

#[test]
fn ids_are_short_and_sort_by_time() {
    let at = Timestamp(1_794_736_572_123);
    let id = new_session_id(at, 0x7f3a);
    assert_eq!(id.as_str(), "20261115-095612-7f3a");
    assert!(id < new_session_id(Timestamp(at.0 + 1000), 0));
    assert_ne!(id, new_session_id(at, 0x7f3a << 17), "every bit of the entropy counts");
    assert_eq!(crate::names::creation_time(&id), Some(Timestamp(at.0 / 1000 * 1000)));
}

#[test]
fn any_range_can_be_read_while_the_writer_appends() {
    let events = session(300);
    let disk = SimDisk::new(0);
    let mut writer = manager(&disk).create(&id()).unwrap();
    let reader = writer.reader();
    assert_eq!(read(&*reader, Seq(0), Seq(10)).unwrap(), []);
    let mut written = 0;
    for batch in super::batches(&events) {
        writer.append(batch).unwrap();
        written += batch.len();
        let from = written.saturating_sub(150);
        let part = read(&*reader, Seq(from as u64), Seq(5000)).unwrap();
        assert_eq!(part, events[from..written], "what is not written yet is left out");
    }
    drop(writer);
    let reopened = manager(&disk).open(&id()).unwrap();
    for (after, up_to) in
        [(0, 300), (0, 1), (63, 64), (64, 65), (127, 130), (128, 192), (299, 300), (300, 301), (9, 3)]
    {
        let expected = events.get(after..up_to.min(300)).unwrap_or_default();
        for reader in [&reader, &reopened.writer.reader()] {
            assert_eq!(
                read(&**reader, Seq(after as u64), Seq(up_to as u64)).unwrap(),
                expected,
                "{after}..{up_to}"
            );
        }
    }
}
