//! What keys of the config do for the real CLI agents: `prices` and `--max-cost`, `mcp_servers`.

use althing_testkit::{FakeModel, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::programs::{START_TIMEOUT, member, programs, with_programs};
use super::support::{LIMIT, SKY, althing};

#[test]
fn the_tokens_of_each_real_cli_agent_are_priced_by_its_model() {
    let Some(dir) = programs() else { return };
    // opencode prefixes the names of its models with their provider. The fake server reports 100 input and 20 output
    // tokens per call in its OpenAI formats. How a CLI agent adds up tokens is up to that agent, so only the ratio is
    // checked.
    for (kind, model) in
        [("codex", "codex-model"), ("gemini_cli", "gemini-model"), ("opencode", "fake/opencode-model")]
    {
        let server = FakeModel::start_on_thread(Script::from_fn(member));
        let althing = with_programs(&dir, &server);
        let agent = json!({"id": "a", "backend": {"type": kind, "model": model}});
        let price =
            json!({"input_per_million": 1000, "output_per_million": 1000, "cached_input_per_million": 1000});
        let name = model.rsplit('/').next().unwrap();
        althing.file("team.yaml", json!({"agents": [agent], "prices": {name: price}}).to_string());
        let args = ["--config", "team.yaml", "--quick", "--max-cost", "5", "--json", "Which is best?"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        let usage = &result["usage"];
        let tokens = usage["input_tokens"].as_f64().unwrap() + usage["output_tokens"].as_f64().unwrap();
        assert!(tokens > 0.0, "{kind}: {usage}");
        let dollars = usage["cost_usd"].as_f64().unwrap();
        assert!((dollars - tokens / 1000.0).abs() < 1e-9, "{kind}: {usage}");
    }
}

#[test]
fn a_limit_on_cost_is_refused_for_an_agent_whose_cost_cannot_be_known() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let price = json!({"input_per_million": 1, "output_per_million": 2});
    // Each case: the backend, its price if the config has one, and what the error names (`None`: the run is not
    // refused).
    let cases = [
        (json!({"type": "codex"}), None, Some("prices: {codex:")),
        (json!({"type": "codex", "model": "gpt-0-unheard-of"}), None, Some("prices: {gpt-0-unheard-of:")),
        (json!({"type": "gemini_cli"}), None, Some("prices: {gemini_cli:")),
        (json!({"type": "openai", "model": "gpt-0-unheard-of"}), None, Some("prices: {gpt-0-unheard-of:")),
        (json!({"type": "codex"}), Some("codex"), None),
        (json!({"type": "codex", "model": "gpt-0-unheard-of"}), Some("gpt-0-unheard-of"), None),
        (json!({"type": "claude_code"}), None, None),
        (json!({"type": "chatcompletion", "model": "m", "base_url": server.base_url()}), None, None),
    ];
    for (backend, priced, refused) in cases {
        let althing = althing().env("OPENAI_API_KEY", "sk-test-key-of-nobody");
        let mut config = json!({"agents": [{"id": "a", "backend": backend}]});
        if let Some(name) = priced {
            config["prices"] = json!({name: price});
        }
        althing.file("team.yaml", config.to_string());
        let args = ["--config", "team.yaml", "--quick", "--max-cost", "1", "Which is best?"];
        let output = althing.new_command().args(args).spawn().wait(LIMIT);
        match refused {
            Some(hint) => {
                let output = output.expect_code(1);
                let stderr = &output.stderr;
                assert!(stderr.contains("`--max-cost` cannot limit its cost"), "{backend}: {stderr}");
                assert!(stderr.contains(hint), "{backend}: {stderr}");
                assert!(!althing.state_dir().join("sessions").exists(), "{backend}: nothing was started");
            }
            // The CLI agents are not installed here, so the run fails; but `--max-cost` must not be the reason.
            None => assert!(!output.stderr.contains("--max-cost"), "{backend}: {}", output.stderr),
        }
    }
}

fn asks_the_weather(request: &RecordedRequest) -> Reply {
    let weather = request.tool_names().into_iter().find(|name| name.ends_with("mcp__sky__weather"));
    match weather.map(str::to_owned) {
        Some(weather) if !request.body().to_string().contains("End your turn now") => {
            Reply::call(weather, &json!({"city": "Hof"}))
        }
        _ => member(request),
    }
}

#[test]
fn each_real_cli_agent_in_a_run_calls_the_mcp_servers_of_its_config_through_us() {
    let Some(dir) = programs() else { return };
    let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
    for kind in ["claude_code", "codex", "gemini_cli", "opencode"] {
        let server = FakeModel::start_on_thread(Script::from_fn(asks_the_weather));
        let althing = with_programs(&dir, &server);
        althing.file("sky.py", SKY);
        let agent = json!({"id": "a", "backend": {"type": kind, "mcp_servers": servers}});
        althing.file("team.yaml", json!({"agents": [agent]}).to_string());
        let args = ["--config", "team.yaml", "--quick", "What is the weather in Hof?"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let told = |request: &RecordedRequest| request.body().to_string().contains("Sunny in Hof");
        assert!(server.requests().iter().any(told), "{kind}: {}", output.stderr);
        let own_tool = |request: &RecordedRequest| {
            request.tool_names().iter().any(|name| name.ends_with("althingtools_read_file"))
        };
        assert!(!server.requests().iter().any(own_tool), "{kind} gets no second set of file tools");
    }
}
