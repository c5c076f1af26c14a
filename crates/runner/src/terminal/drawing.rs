//! Detects escape sequences by which a program in a terminal draws (moves the cursor up or to a position, or sets a
//! scroll region) instead of printing. The emulator stores only the result of a sequence.

#[derive(Debug, Default)]
pub(super) struct DrawingDetector {
    pub(super) goes_back: bool,
    pub(super) has_region: bool,
    sequence: Option<SequenceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequenceState {
    Escape,
    Sequence { params: bool, private: bool },
}

impl DrawingDetector {
    pub(super) fn scan(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            if self.sequence.is_none() {
                let Some(at) = rest.iter().position(|byte| *byte == 0x1b) else { return };
                rest = rest.get(at + 1..).unwrap_or_default();
                self.sequence = Some(SequenceState::Escape);
            }
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            self.sequence = match (self.sequence, byte) {
                (_, 0x1b) => Some(SequenceState::Escape),
                (Some(SequenceState::Escape), b'[') => {
                    Some(SequenceState::Sequence { params: false, private: false })
                }
                (Some(SequenceState::Escape), b'M') => {
                    self.goes_back = true;
                    None
                }
                (Some(SequenceState::Sequence { private, .. }), b'0'..=b';') => {
                    Some(SequenceState::Sequence { params: true, private })
                }
                (Some(SequenceState::Sequence { params, .. }), b' '..=b'?') => {
                    Some(SequenceState::Sequence { params, private: true })
                }
                (Some(SequenceState::Sequence { params, private: false }), letter) => {
                    self.ended(*letter, params);
                    None
                }
                _ => None,
            };
        }
    }

    fn ended(&mut self, letter: u8, params: bool) {
        match letter {
            b'A' | b'F' | b'H' | b'd' | b'f' => self.goes_back = true,
            b'r' => self.has_region = params,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DrawingDetector;

    fn seen(pieces: &[&str]) -> (bool, bool) {
        let mut drawing = DrawingDetector::default();
        for piece in pieces {
            drawing.scan(piece.as_bytes());
        }
        (drawing.goes_back, drawing.has_region)
    }

    #[test]
    fn colors_and_modes_do_not_count_as_drawing() {
        assert_eq!(
            seen(&["plain \x1b[1;31mred\x1b[0m \x1b[?25l\x1b[K\x1b[?2004h\x1b[>4;1m H A r"]),
            (false, false)
        );
    }

    #[test]
    fn cursor_movements_and_regions_are_recognized_across_reads() {
        assert_eq!(seen(&["\x1b", "[", "3", "A"]), (true, false));
        assert_eq!(seen(&["\x1b[H"]), (true, false));
        assert_eq!(seen(&["\x1bM"]), (true, false));
        assert_eq!(seen(&["\x1b[2;5r"]), (false, true));
        assert_eq!(seen(&["\x1b[2;5r\x1b[r"]), (false, false));
    }
}
