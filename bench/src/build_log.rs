//! A build log, as compilers write it to terminals.

pub fn block(colors: bool) -> Vec<u8> {
    let mut text = String::new();
    for n in 0.. {
        if text.len() >= 1024 * 1024 {
            break;
        }
        let line = match n % 4 {
            0 => format!(
                "\x1b[1m\x1b[32m   Compiling\x1b[0m serde_json v1.0.{n} (/home/build/registry/serde_json)\n"
            ),
            1 => format!("\x1b[1m\x1b[33mwarning\x1b[0m\x1b[1m: unused variable: `request_{n}`\x1b[0m\n"),
            2 => format!("  \x1b[1m\x1b[34m--> \x1b[0mcrates/engine/src/orchestrator/session.rs:{n}:17\n"),
            _ => format!(
                "\x1b[1m\x1b[34m{n:5} |\x1b[0m     let request = self.next_request(agent, \x1b[31m\"some text\"\x1b[0m)?; // and why\n"
            ),
        };
        text.push_str(&line);
    }
    let mut bytes = if colors { text.into_bytes() } else { plain(&text) };
    // Without colors, the log is shorter than 1 MiB, so its beginning is repeated.
    while bytes.len() < 1024 * 1024 {
        bytes.extend_from_within(..bytes.len().min(1024 * 1024 - bytes.len()));
    }
    bytes.truncate(1024 * 1024);
    bytes
}

fn plain(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut in_sequence = false;
    for byte in text.bytes() {
        match (in_sequence, byte) {
            (false, 0x1b) => in_sequence = true,
            (false, _) => out.push(byte),
            (true, b'm') => in_sequence = false,
            (true, _) => {}
        }
    }
    out
}
