//! Shortens long texts without a model: excerpts, and summaries that follow the structure of a text. Each says how long
//! the whole text is and where it is.

const MAX_SENTENCE_BYTES: usize = 240;

/// Keeps the beginning and the end of a text, together at most `most` bytes, with a note between them: how much is
/// omitted, where the full text is (`whole`), and the first omitted headings. A text of at most `most` bytes is
/// unchanged.
pub(crate) fn excerpt(text: &str, most: usize, whole: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = most / 4;
    let from = text.floor_char_boundary(most - end);
    let to = text.ceil_char_boundary(text.len() - end).max(from);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let (before, left_out, after) = (part(0..from), part(from..to), part(to..text.len()));
    let mut marker = format!("[{} of {} bytes are left out here; {whole}", left_out.len(), text.len());
    headings(left_out, most / 8, &mut marker);
    format!("{before}\n{marker}]\n{after}")
}

/// Appends as many headings as fit into `room` bytes; `…` marks that there are more.
fn headings(text: &str, room: usize, into: &mut String) {
    let mut left = room;
    // The first line may be the rest of a heading that was cut.
    for (n, heading) in text.lines().skip(1).filter(|line| is_heading(line)).enumerate() {
        let Some(rest) = left.checked_sub(heading.len() + 1) else {
            if n > 0 {
                into.push_str("\n…");
            }
            return;
        };
        left = rest;
        into.push_str(if n == 0 { "; these headings are left out:\n" } else { "\n" });
        into.push_str(heading);
    }
}

/// Summarizes a text of more than `most` bytes: its opening paragraph, an outline of its headings (else of its lists,
/// else of its paragraphs), and its closing paragraph. The first line says that this is a summary, the sizes, and where
/// the full text is (`whole`).
pub(crate) fn structural_summary(text: &str, most: usize, whole: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let paragraphs = paragraphs(text);
    let is_text = |paragraph: &&Paragraph| !paragraph.is_heading;
    let opening = paragraphs.iter().find(is_text).map_or("", |paragraph| paragraph.text);
    let closing = paragraphs.iter().rfind(is_text).map_or("", |paragraph| paragraph.text);
    let share = most / 4;
    let body = if paragraphs.iter().filter(is_text).count() < 2 {
        // There is no structure to follow.
        format!("{}\n[…]\n{}", beginning(text, most - share), ending(text, share))
    } else {
        let outline = outline(&paragraphs, most / 2);
        let (opening, closing) = (beginning(opening, share), ending(closing, share));
        format!("{opening}\n\n{outline}\n\n{closing}")
    };
    format!("[a summary of {} bytes; the full text has {} bytes; {whole}]\n{body}", body.len(), text.len())
}

/// A heading, or the lines between two blank lines or headings. A block of code is one paragraph.
struct Paragraph<'a> {
    text: &'a str,
    is_heading: bool,
    is_code: bool,
}

fn paragraphs(text: &str) -> Vec<Paragraph<'_>> {
    let mut found = Vec::new();
    let mut start = None;
    let (mut at, mut in_code) = (0, false);
    let end = |found: &mut Vec<_>, start: &mut Option<usize>, at: usize, is_code: bool| {
        if let Some(text) = start.take().and_then(|start: usize| text.get(start..at)) {
            found.push(Paragraph { text: text.trim_end(), is_heading: false, is_code });
        }
    };
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        if in_code {
            if is_fence {
                end(&mut found, &mut start, next, true);
                in_code = false;
            }
        } else if is_fence {
            end(&mut found, &mut start, at, false);
            (start, in_code) = (Some(at), true);
        } else if line.trim().is_empty() {
            end(&mut found, &mut start, at, false);
        } else if is_heading(line) {
            end(&mut found, &mut start, at, false);
            found.push(Paragraph { text: line.trim_end(), is_heading: true, is_code: false });
        } else {
            start.get_or_insert(at);
        }
        at = next;
    }
    end(&mut found, &mut start, at, in_code);
    found
}

fn is_heading(line: &str) -> bool {
    let level = line.chars().take_while(|c| *c == '#').count();
    (1..=6).contains(&level) && line.get(level..).is_some_and(|rest| rest.starts_with(' '))
}

/// The text of a list item, without its bullet or number; None if the line is indented or not an item.
fn list_item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].into_iter().find_map(|bullet| line.strip_prefix(bullet));
    bullet.or_else(|| {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let rest = line.get(digits..).filter(|_| (1..=4).contains(&digits))?;
        rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
    })
}

/// An outline of at most `most` bytes. If not all entries fit, those in the middle are omitted, and a note says how
/// many.
fn outline(paragraphs: &[Paragraph<'_>], most: usize) -> String {
    let mut entries: Vec<(String, String)> = Vec::new();
    if paragraphs.iter().any(|paragraph| paragraph.is_heading) {
        for (n, heading) in paragraphs.iter().enumerate().filter(|(_, paragraph)| paragraph.is_heading) {
            let next = paragraphs.get(n + 1).filter(|next| !next.is_heading && !next.is_code);
            let sentence = next.map(|next| first_sentence(next.text)).unwrap_or_default();
            entries.push((shortened_line(heading.text), sentence));
        }
    } else {
        let lines = paragraphs.iter().filter(|paragraph| !paragraph.is_code).flat_map(|it| it.text.lines());
        let items =
            lines.filter_map(list_item).map(|item| (format!("- {}", first_sentence(item)), String::new()));
        entries.extend(items);
    }
    if entries.is_empty() {
        let texts = paragraphs.iter().filter(|paragraph| !paragraph.is_code);
        entries
            .extend(texts.map(|paragraph| (format!("- {}", first_sentence(paragraph.text)), String::new())));
    }
    let size = |entries: &[(String, String)]| -> usize {
        entries.iter().map(|(head, sentence)| head.len() + sentence.len() + 2).sum()
    };
    // Headings matter more than sentences, and both ends of the outline more than its middle.
    if size(&entries) > most {
        for (_, sentence) in &mut entries {
            sentence.clear();
        }
    }
    let all = entries.len();
    let note = |missing: usize| format!("[{missing} more entries of this outline are left out]");
    let room = if size(&entries) > most { most.saturating_sub(note(all).len() + 1) } else { most };
    let (mut first, mut last, mut left) = (0, all, room);
    while first < last {
        let at = if first <= all - last { first } else { last - 1 };
        let Some(rest) =
            entries.get(at).and_then(|entry| left.checked_sub(size(std::slice::from_ref(entry))))
        else {
            break;
        };
        left = rest;
        if at == first { first += 1 } else { last -= 1 }
    }
    let mut lines: Vec<String> = Vec::new();
    for (n, (head, sentence)) in entries.into_iter().enumerate() {
        if n < first || n >= last {
            lines.push(head);
            lines.extend(Some(sentence).filter(|sentence| !sentence.is_empty()));
        } else if n == first {
            lines.push(note(last - first));
        }
    }
    lines.join("\n")
}

/// The first sentence of the first line that is neither blank nor a code fence, without bullet or number; `…` marks a
/// shortened sentence.
pub(crate) fn first_sentence(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("```"));
    let Some(line) = lines.into_iter().next() else { return String::new() };
    let line = list_item(line).unwrap_or(line);
    let ends = |(at, c): (usize, char)| {
        let next = line.get(at + c.len_utf8()..).unwrap_or_default();
        let full_stop = matches!(c, '.' | '!' | '?') && next.starts_with(char::is_whitespace);
        (full_stop || matches!(c, '。' | '！' | '？')).then(|| at + c.len_utf8())
    };
    let end = line.char_indices().find_map(ends).unwrap_or(line.len());
    shortened_line(line.get(..end).unwrap_or(line))
}

fn shortened_line(line: &str) -> String {
    althing_text::truncate_bytes(line, MAX_SENTENCE_BYTES)
}

/// The beginning of a text: at most `most` bytes and, if possible, whole words; `…` marks the cut.
fn beginning(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let words = head.rfind(char::is_whitespace).filter(|at| *at > most / 2).unwrap_or(head.len());
    format!("{}…", head.get(..words).unwrap_or(head))
}

/// The end of a text: at most `most` bytes and, if possible, whole words; `…` marks the cut.
fn ending(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let tail = text.get(text.ceil_char_boundary(text.len() - most)..).unwrap_or_default();
    let words = tail.find(char::is_whitespace).filter(|at| *at < most / 2).unwrap_or(0);
    format!("…{}", tail.get(words..).unwrap_or(tail).trim_start())
}

#[cfg(test)]
mod tests {
    use super::{excerpt, first_sentence, structural_summary};

    #[test]
    fn a_text_that_fits_is_not_shortened() {
        assert_eq!(excerpt("äöü", 6, "x"), "äöü");
        assert_eq!(structural_summary("# A\n\näöü", 12, "x"), "# A\n\näöü");
    }

    #[test]
    fn an_excerpt_has_both_ends_the_omitted_headings_and_the_omitted_size() {
        let middle = format!("{}\n## Costs\n{}\n", "ä".repeat(500), "b".repeat(500));
        let text = format!("# Start\n{middle}The end");
        let excerpt_text = excerpt(&text, 400, "the whole text is in FILE");
        assert!(
            excerpt_text.starts_with("# Start\nä") && excerpt_text.ends_with("bb\nThe end"),
            "{excerpt_text}"
        );
        assert!(
            excerpt_text.contains("## Costs") && excerpt_text.contains("the whole text is in FILE"),
            "{excerpt_text}"
        );
        let (before, rest) = excerpt_text.split_once("\n[").unwrap();
        let (marker, after) = rest.split_once("]\n").unwrap();
        let missing = text.len() - before.len() - after.len();
        assert!(marker.starts_with(&format!("{missing} of {} bytes", text.len())), "{marker}");
    }

    #[test]
    fn shortened_texts_never_split_a_character_and_stay_near_their_limit() {
        let texts = [
            "# ä€😀\n".repeat(300),
            "ä€😀".repeat(300),
            "Ä first. A second.\n\n".repeat(200),
            "- ein Stück. Noch eins.\n".repeat(200),
            format!("```\n{}\n```\n", "# not a heading\n".repeat(200)),
        ];
        for text in &texts {
            for most in 0..900 {
                let excerpt_text = excerpt(text, most, "x");
                assert!(excerpt_text.len() <= most + most / 8 + 100, "{most}: {}", excerpt_text.len());
                let summary = structural_summary(text, most, "x");
                assert!(summary.len() <= most + 140, "{most}: {} {summary}", summary.len());
                assert!(summary.starts_with("[a summary of ") && summary.contains("; x]\n"), "{summary}");
            }
        }
    }

    #[test]
    fn a_summary_has_the_opening_each_heading_with_its_first_sentence_and_the_closing() {
        let filler = "Filler that nobody needs, in many words. ".repeat(60);
        let text = format!(
            "# Report\n\nThe opening says it all. Really.\n\n## Costs\n\nIt costs 5 dollars. {filler}\n\n{filler}\n\n\
             ```sh\n# not a heading\n```\n\n## Risks\n- The roof leaks. {filler}\n\n{filler}\n\nThe closing: buy it."
        );
        let summary = structural_summary(&text, 1000, "the whole text is in FILE");
        let body = "The opening says it all. Really.\n\n# Report\nThe opening says it all.\n## Costs\nIt costs 5 dollars.\n\
                    ## Risks\nThe roof leaks.\n\nThe closing: buy it.";
        let head = format!(
            "[a summary of {} bytes; the full text has {} bytes; the whole text is in FILE]",
            body.len(),
            text.len()
        );
        assert_eq!(summary, format!("{head}\n{body}"));
    }

    #[test]
    fn without_headings_the_outline_lists_the_items_or_else_the_paragraphs() {
        let filler = "and so on and so forth ".repeat(40);
        let list = format!(
            "Three ways.\n\n1. Copy it. {filler}\n2. Move it. {filler}\n- Link it. {filler}\n\nLink it."
        );
        let summary = structural_summary(&list, 600, "x");
        assert!(summary.contains("\n- Copy it.\n- Move it.\n- Link it.\n\nLink it."), "{summary}");
        let plain = format!("One. {filler}\n\nTwo. {filler}\n\nThree. {filler}");
        let summary = structural_summary(&plain, 600, "x");
        assert!(summary.contains("\n\n- One.\n- Two.\n- Three.\n\n"), "{summary}");
    }

    #[test]
    fn an_outline_that_is_too_long_keeps_both_ends_and_counts_what_is_missing() {
        let parts: Vec<String> =
            (0..500).map(|n| format!("## Part {n}\n\nText of part {n}. More.")).collect();
        let text = parts.join("\n\n");
        let summary = structural_summary(&text, 2000, "x");
        assert!(summary.contains("## Part 0\n") && summary.contains("## Part 499\n"), "{summary}");
        let note = summary
            .lines()
            .find(|line| line.ends_with("more entries of this outline are left out]"))
            .unwrap();
        let missing: usize = note[1..].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(summary.matches("## Part ").count() + missing, 500, "{summary}");
    }

    #[test]
    fn a_text_without_structure_is_shown_by_its_two_ends() {
        let text = format!("begin {}end", "word ".repeat(1000));
        let summary = structural_summary(&text, 400, "x");
        assert!(summary.contains("]\nbegin word") && summary.ends_with("word end"), "{summary}");
        assert!(summary.contains("word…\n[…]\n…word"), "{summary}");
    }

    #[test]
    fn the_first_sentence_ends_with_its_full_stop_and_is_limited() {
        assert_eq!(first_sentence("\n- Use v1.2 of it. Then rest.\nMore"), "Use v1.2 of it.");
        assert_eq!(first_sentence("No full stop\nMore"), "No full stop");
        assert_eq!(first_sentence(""), "");
        assert_eq!(first_sentence("你好。再见。"), "你好。");
        assert_eq!(first_sentence(&"x".repeat(900)).chars().count(), 241);
    }
}
