//! The names under which MCP tools are offered: `mcp__server__tool`, restricted to what every provider accepts. A
//! name depends only on the set of tools, so a tool keeps its name across restarts; a name that is too long or shared
//! gets a hash suffix.

use super::limits;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

const HASH_CHARS: usize = 8;

/// The name of a tool is `None` if its hashed name is taken as well.
pub(crate) fn offered(tools: &[(&str, &str)]) -> Vec<Option<String>> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain(server, tool)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *uses.entry(name.as_str()).or_default() += 1;
    }
    let mut taken = std::collections::HashSet::new();
    plain
        .iter()
        .zip(tools)
        .map(|(name, (server, tool))| {
            let alone = uses.get(name.as_str()) == Some(&1);
            let fits = name.len() <= limits::TOOL_NAME;
            let name = if alone && fits { name.clone() } else { hashed(name, server, tool) };
            taken.insert(name.clone()).then_some(name)
        })
        .collect()
}

fn plain(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", fit(server), fit(tool))
}

/// Replaces every character that some provider rejects. The result is ASCII, so bytes and characters coincide.
fn fit(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

fn hashed(name: &str, server: &str, tool: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(server.as_bytes());
    digest.update([0]);
    digest.update(tool.as_bytes());
    let hash: String =
        digest.finalize().iter().flat_map(|byte| [byte >> 4, byte & 15]).take(HASH_CHARS).map(hex).collect();
    let head: String = name.chars().take(limits::TOOL_NAME - HASH_CHARS - 1).collect();
    format!("{head}_{hash}")
}

fn hex(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        offered(tools).into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn a_plain_name_is_kept_as_it_is() {
        assert_eq!(names(&[("files", "read_file")]), ["mcp__files__read_file"]);
    }

    #[test]
    fn characters_that_providers_refuse_are_replaced() {
        assert_eq!(names(&[("my files", "read.file\u{7}ä")]), ["mcp__my_files__read_file__"]);
    }

    #[test]
    fn tools_that_would_share_a_name_all_get_a_hash_in_any_order() {
        let one = names(&[("s", "a.b"), ("s", "a b")]);
        let other = names(&[("s", "a b"), ("s", "a.b")]);
        assert_ne!(one[0], one[1]);
        assert!(one.iter().all(|name| name.starts_with("mcp__s__a_b_")), "{one:?}");
        assert_eq!((&one[0], &one[1]), (&other[1], &other[0]));
    }

    #[test]
    fn a_server_name_cannot_be_chosen_so_that_it_takes_over_another_servers_tool() {
        let both = names(&[("a", "b__c"), ("a__b", "c")]);
        assert_ne!(both[0], both[1]);
        assert!(!both.contains(&"mcp__a__b__c".to_owned()));
    }

    #[test]
    fn a_long_name_is_cut_to_64_with_a_distinguishing_hash() {
        let (long, like) = ("x".repeat(100), format!("{}y", "x".repeat(99)));
        let both = names(&[("server", &long), ("server", &like)]);
        assert_eq!([both[0].len(), both[1].len()], [64, 64]);
        assert_ne!(both[0], both[1]);
        assert_eq!(names(&[("server", &long)])[0], both[0]);
    }

    #[test]
    fn the_same_tool_listed_twice_is_offered_once() {
        let all = offered(&[("s", "t"), ("s", "t")]);
        assert_eq!(all.iter().flatten().count(), 1);
    }
}
