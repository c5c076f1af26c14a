//! Configs that would exhaust memory or the stack of a careless parser.

pub fn config_bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        aliases = format!("{aliases}a{n}: &a{n} [{}]\n", vec![before; 10].join(", "));
    }
    aliases.push_str("agents: *a11\n");
    let deep = format!("agents: {}1{}\n", "[".repeat(20_000), "]".repeat(20_000));
    let large = format!("agents:\n{}", "  - {id: a, backend: {type: offline}}\n".repeat(280_000));
    vec![
        ("an alias bomb", aliases.into_bytes()),
        ("20,000 brackets", deep.into_bytes()),
        ("10 MB", large.into_bytes()),
    ]
}
