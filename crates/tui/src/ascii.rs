//! ASCII stand-ins for the symbols of the screen, for terminals that show nothing else.

/// The nearest ASCII for a character, for terminals that know no other; as wide as the original.
pub(crate) fn ascii(symbol: &str, width: usize) -> &'static str {
    let one = match symbol {
        "●" | "•" | "■" => "*",
        "▸" | "▶" | "›" | "→" | "»" => ">",
        "▾" | "▼" | "↓" => "v",
        "▴" | "↑" | "⇧" => "^",
        "‹" | "←" | "«" => "<",
        "─" | "━" | "–" | "—" | "−" | "·" => "-",
        "│" | "┃" | "▏" | "▎" => "|",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" | "✓" => "+",
        "✗" | "×" => "x",
        "█" | "▓" => "#",
        "░" | "▒" => ".",
        "…" => "~",
        "⏎" => "<",
        "“" | "”" | "„" => "\"",
        "‘" | "’" => "'",
        _ => "?",
    };
    if width > 1 { "??" } else { one }
}
