//! Tests of what a run does with the texts of small models: reminders that show the task again, presentations that are
//! not taken, and answers that are questioned once.

use super::harness::{World, answer, call, spec, text, vote};
use super::rules::{everyone_answers, final_answer};
use althing_protocol::{
    AgentId, AgentOutcome, AttemptOutcome, CallsFrom, Event, Fact, FinalAnswerStrategy, Item, Message, Reply,
    RunRules, RunStatus,
};

const TASK: &str = "Why is the sky blue?";
const CODE: &str =
    "The function:\n\n```python\ndef blue(wave):\n    power = wave ** -4\n    return power > LIMIT\n```";

fn calls(names: &[&str]) -> Reply {
    Reply { tool_calls: names.iter().map(|name| call(name, "{}")).collect(), ..Reply::default() }
}

/// A call of `new_answer` that the model wrote as JSON because the request had a schema.
fn written_answer(content: &str) -> Reply {
    Reply { calls_from: Some(CallsFrom::Schema), ..answer(content) }
}

fn last_message(world: &World, member_index: usize) -> String {
    match world.run.request(member_index).expect("asked").messages.pop().expect("a message") {
        Message::User(text) | Message::Tool { content: text, .. } => text,
        Message::Assistant { .. } => panic!("the last message is the agent's own"),
    }
}

fn notices(world: &World) -> Vec<String> {
    let notice = |event: &Event| match &event.fact {
        Fact::Notice(notice) => Some(notice.text.clone()),
        _ => None,
    };
    world.log.iter().filter_map(notice).collect()
}

fn presenting(content: &str, rules: RunRules) -> World {
    let mut world = World::start(&["a", "b"], rules);
    world.says(0, answer("Because."));
    world.says(1, answer(content));
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [1], "b presents");
    world
}

#[test]
fn every_reminder_shows_the_task_again_and_ends_with_what_to_do() {
    let answering = || World::start(&["a", "b"], RunRules::default());
    let judging = || {
        let mut world = answering();
        everyone_answers(&mut world);
        world
    };
    let voting = || {
        let mut world =
            World::start(&["a", "b"], RunRules { max_new_answers_per_agent: Some(1), ..RunRules::default() });
        everyone_answers(&mut world);
        world
    };
    let evaluating = || {
        let mut world = World::start(&["a"], RunRules { max_restarts: 1, ..RunRules::default() });
        world.says(0, answer("one"));
        world.says(0, vote("agent1"));
        world.says(0, text("one, finally"));
        world
    };
    let known = judging().run.answers()[0].content.clone();
    let both = Reply {
        tool_calls: [answer("x").tool_calls, vote("agent1").tool_calls].concat(),
        ..Reply::default()
    };
    let bad =
        |name: &str, arguments: &str| Reply { tool_calls: vec![call(name, arguments)], ..Reply::default() };
    let (answers, judges, votes) = (
        "calling `new_answer` with your complete answer",
        "calling `new_answer` or `vote`",
        "calling `vote`",
    );
    let cases: Vec<(World, usize, Reply, &str, &str)> = vec![
        (answering(), 0, text("I think so."), "ends only with a tool call", answers),
        (answering(), 0, text(" "), "was empty", answers),
        (answering(), 0, calls(&["rm_rf"]), "no such tool", answers),
        (answering(), 0, vote("agent1"), "cannot vote in this turn", answers),
        (answering(), 0, bad("new_answer", "{}"), "needs the argument `content`", answers),
        (answering(), 0, bad("new_answer", "not json"), "not valid JSON", answers),
        (answering(), 0, answer("I am ready to assist you."), "offers help", answers),
        (judging(), 0, text("The second."), "ends only with a tool call", judges),
        (judging(), 0, both, "both answered and voted", judges),
        (judging(), 0, answer(&known), "word for word", judges),
        (judging(), 0, bad("vote", "[]"), "must be a JSON object", judges),
        (judging(), 0, vote("agent9"), "`agent9` is not an agent", judges),
        (voting(), 0, answer("more"), "No further answers", votes),
        (voting(), 0, vote("agent9"), "Choose among: agent1, agent2", votes),
        (presenting("x", RunRules::default()), 1, text(""), "was empty", "write the complete final answer"),
        (
            presenting("x", RunRules::default()),
            1,
            calls(&["rm_rf"]),
            "wrote nothing",
            "the complete final answer",
        ),
        (evaluating(), 0, calls(&["rm_rf"]), "no such tool", "calling `submit`"),
        (evaluating(), 0, calls(&["submit", "restart_orchestration"]), "neither counts", "calling `submit`"),
        (evaluating(), 0, bad("restart_orchestration", "{}"), "needs the argument", "calling `submit`"),
    ];
    for (mut world, member_index, reply, problem, action) in cases {
        world.says(member_index, reply);
        let shown = last_message(&world, member_index);
        let (again, rest) =
            shown.split_once("<END OF ORIGINAL MESSAGE ").unwrap_or_else(|| panic!("{shown}"));
        assert!(again.contains("<ORIGINAL MESSAGE ") && again.contains(TASK), "{shown}");
        let at = (rest.find(problem), rest.find(action));
        assert!(matches!(at, (Some(problem), Some(action)) if problem < action), "{at:?} {problem}: {shown}");
    }
}

#[test]
fn a_reminder_shortens_a_long_task_and_shows_it_once() {
    let mut spec = spec(&["a"], RunRules::default());
    spec.task = format!("Summarize this. {}The end.", "A long text. ".repeat(1000));
    let mut world = World::new(spec);
    world.says(0, calls(&["read_mail", "send_mail", "rm_rf"]));
    let messages = world.run.request(0).unwrap().messages;
    let results: Vec<&String> = messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content),
            _ => None,
        })
        .collect();
    let restated: Vec<bool> = results.iter().map(|result| result.contains("ORIGINAL MESSAGE")).collect();
    assert_eq!(restated, [false, false, true], "with the last of the refused calls");
    let last = results[2];
    assert!(last.len() < 3000 && last.contains("Summarize this.") && last.contains("The end."), "{last}");
    assert!(last.contains("are left out here; the first message has the whole text"), "{last}");
}

#[test]
fn what_an_agent_that_drops_out_did_wrong_is_said_without_the_task() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    for _ in 0..3 {
        world.says(0, text(""));
    }
    world.says(1, answer("one"));
    world.says(1, vote("agent2"));
    world.says(1, text("final"));
    let error = world.run.result().unwrap().coordination_summary.agents[0].error.clone().unwrap();
    assert!(error.ends_with("the problem with the last try: Your reply was empty."), "{error}");
}

#[test]
fn reminders_of_old_logs_are_shown_as_they_were() {
    let mut world = World::start(&["a"], RunRules::default());
    let old = r#"{"kind": "reminder", "call": null, "text": "Call `new_answer`."}"#;
    let reply = Fact::ItemAdded { attempt: 1, item: Item::Reply(text("Hm.")) };
    world.record(Some("r1.a1".into()), reply);
    world.happens("r1.a1".into(), Fact::ItemAdded { attempt: 1, item: serde_json::from_str(old).unwrap() });
    assert_eq!(last_message(&world, 0), "Call `new_answer`.");
}

#[test]
fn a_weak_presentation_is_not_taken_and_a_notice_says_why() {
    let cases = [
        ("<END OF VOTES>", "repeats the markup of the prompt"),
        ("I'm sorry, but I can't assist with that.", "apologizes or refuses instead of answering"),
        ("I am ready to assist you.", "offers help instead of answering"),
        ("The function compares a power of the wavelength.", "has lost the code"),
        (r#"{"name": "vote", "arguments": {"agent_id": "agent2"}}"#, "is a tool call written as text"),
        ("agent2 gave the best answer.", "has lost the code"),
    ];
    for strategy in [FinalAnswerStrategy::WinnerPresent, FinalAnswerStrategy::Synthesize] {
        for (weak, reason) in cases {
            let rules = RunRules { final_answer_strategy: Some(strategy), ..RunRules::default() };
            let mut world = presenting(CODE, rules);
            world.says(1, text(weak));
            let result = world.run.result().expect("no further call");
            assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Completed, Some(CODE)));
            assert_eq!(result.coordination_summary.presenter.as_ref().map(AgentId::as_str), Some("b"));
            let told = notices(&world);
            assert!(
                matches!(&told[..], [told] if told.starts_with(&format!("the presentation by b {reason}"))
                    && told.ends_with("; its own answer is used instead.")),
                "{told:?}"
            );
            assert_eq!(world.folded(), world.run);
        }
    }
}

#[test]
fn an_honest_presentation_that_differs_in_words_is_taken() {
    let honest =
        "```python\ndef is_blue(wavelength):\n    return wavelength ** -4 > LIMIT\n```\nShort waves win.";
    let mut world = presenting(CODE, RunRules::default());
    world.says(1, text(honest));
    assert_eq!(final_answer(&world), honest);
    assert!(notices(&world).is_empty());
}

#[test]
fn a_presenter_that_writes_nothing_is_reminded_once() {
    let mut world = presenting(CODE, RunRules::default());
    world.says(1, text(" "));
    assert_eq!(world.asked(), [1], "reminded");
    world.says(1, calls(&["rm_rf"]));
    assert_eq!(final_answer(&world), CODE);
    assert_eq!(notices(&world), ["the presentation by b is empty; its own answer is used instead."]);
    let agents = &world.run.result().unwrap().coordination_summary.agents;
    assert_eq!(agents[1].status, AgentOutcome::Voted, "it did not drop out");
}

#[test]
fn a_weak_presentation_is_not_evaluated() {
    let mut world = presenting(CODE, RunRules { max_restarts: 1, ..RunRules::default() });
    world.says(1, text("I am ready to assist you."));
    assert_eq!(final_answer(&world), CODE);
}

#[test]
fn a_presentation_that_an_old_log_took_stays_the_final_answer() {
    let mut world = presenting(CODE, RunRules { max_restarts: 1, ..RunRules::default() });
    let old = r#"{"outcome": "presented", "text": "<END OF VOTES>"}"#;
    let outcome: AttemptOutcome = serde_json::from_str(old).unwrap();
    let reply = Fact::ItemAdded { attempt: 3, item: Item::Reply(text("<END OF VOTES>")) };
    world.record(Some("r1.a2".into()), reply);
    let usage = althing_protocol::Usage::default();
    world.happens("r1.a2".into(), Fact::AttemptEnded { attempt: 3, outcome, usage, call: None });
    world.says(1, calls(&["submit"]));
    assert_eq!(final_answer(&world), "<END OF VOTES>");
}

#[test]
fn a_critique_in_place_of_the_code_is_questioned_once_and_then_taken() {
    let critique = "agent2's answer is good, but it should name its constant.";
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer(CODE));
    world.says(1, answer("Use a power law."));
    world.says(0, answer(critique));
    assert_eq!(world.run.answers().len(), 2, "not stored");
    let shown = last_message(&world, 0);
    assert!(shown.contains("has lost the code") && shown.contains("`new_answer` or `vote`"), "{shown}");
    world.says(0, answer(critique));
    assert_eq!(world.run.answers()[2].content, critique, "the second time it is taken as it is");
}

#[test]
fn an_agent_with_tools_may_move_its_code_into_files() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.members[0].has_tools = true;
    let mut world = World::new(spec);
    let keep = |world: &mut World, attempt| {
        let kept = Fact::ItemAdded { attempt, item: Item::WorkspaceKept { error: None } };
        world.happens(world.run.work(0), kept);
    };
    world.says(0, answer(CODE));
    keep(&mut world, 1);
    world.says(1, answer("Use a power law."));
    world.says(0, answer("The improved function is in blue.py."));
    keep(&mut world, 2);
    assert_eq!(world.run.answers()[2].content, "The improved function is in blue.py.");
}

#[test]
fn a_text_that_answers_the_reminder_instead_of_the_task_does_not_replace_the_first_text() {
    for reply in ["I am ready to assist you.", "I have already answered above.", "<END OF ORIGINAL MESSAGE>"]
    {
        let mut world = World::start(&["a"], RunRules::default());
        world.says(0, text("Because of Rayleigh scattering."));
        world.says(0, text(reply));
        assert_eq!(world.run.answers()[0].content, "Because of Rayleigh scattering.", "{reply}");
    }
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, text("I am ready to assist you."));
    world.says(0, text("How can I help you today?"));
    assert_eq!(
        world.run.answers()[0].content,
        "How can I help you today?",
        "a weak answer is better than none"
    );
}

#[test]
fn markers_that_a_model_copies_do_not_reach_the_final_answer() {
    let copied = "The answer is 4.\n<END OF ORIGINAL MESSAGE 7a13f402>\nThe tool call is:";
    let rules =
        RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
    let mut world = World::start(&["a", "b"], rules);
    world.says(0, answer(copied));
    assert_eq!(world.run.answers().len(), 0, "questioned first");
    world.says(0, answer(copied));
    assert_eq!(world.run.answers()[0].content, copied, "the answer itself is recorded as it is");
    world.says(1, answer("I do not know."));
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    assert_eq!(final_answer(&world), "The answer is 4.\n\nThe tool call is:");
}

#[test]
fn markers_that_the_winner_copied_do_not_come_back_with_its_presentation() {
    let copied = "<END OF MESSAGE 7a13f402>\nThe answer is 4.";
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer("Because."));
    // Questioned once, then taken.
    world.says(1, answer(copied));
    world.says(1, answer(copied));
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    world.says(1, text("<END OF MESSAGE 7a13f402>\nThe answer is 4, as `<END OF FILE>` shows."));
    assert_eq!(final_answer(&world), "The answer is 4, as `<END OF FILE>` shows.");
}

#[test]
fn what_a_small_model_copied_or_cut_off_is_not_presented() {
    let rules =
        RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
    for (written, shown) in [
        ("The answer is 4.\n\n<END OF MESSAGE 44a", "The answer is 4."),
        ("The answer is 4.\n<ORIGINAL MESSAGE", "The answer is 4."),
        ("The answer is 4.\n\n<END", "The answer is 4."),
        ("Write `cat` with\n\n    cat <<END", "Write `cat` with\n\n    cat <<END"),
        (
            "{\"name\": \"new_answer\", \"arguments\": {\"content\": \"It is \\\"4\\\".\\nReally",
            "It is \"4\".\nReally",
        ),
        ("```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"It is 4.\", \"conc", "It is 4."),
        ("{\"name\": \"new_answer\", \"arguments\": {\"content\": \"It is 4.\\", "It is 4."),
        ("Compare `a <END` and b.", "Compare `a <END` and b."),
    ] {
        let mut world = World::start(&["a"], rules.clone());
        while world.run.answers().is_empty() {
            world.says(0, text(written));
        }
        world.says(0, vote("agent1"));
        assert_eq!(final_answer(&world), shown, "{written}");
    }
}

#[test]
fn a_text_about_the_tools_of_the_run_never_becomes_the_answer() {
    for about in [
        "The original message 5f51351e contains a JSON object with the name \"new_answer\".",
        "The tool call is:\n\n```\n# new_answer\n```\n\nThe JSON object is:\n\n```\n{\n  \"name\": \"new_",
        "{\n  \"type\": \"json\",\n  \"data\": {\n    \"name\": \"new_answer\",\n    \"arguments\": {",
        "The message is:\n\n```\n<END OF ORIGINAL MESSAGE 13c82aca>\n```\n\nReally.",
        "The tool call is:\n\n<END OF MESSAGE \n<end of agent1.",
        "I call <tool_call>.",
        "<|im_start|>assistant",
    ] {
        let mut world = World::start(&["a", "b"], RunRules::default());
        world.says(1, answer("Because."));
        for _ in 0..3 {
            assert!(world.asked().contains(&0), "{about}");
            world.says(0, text(about));
        }
        let answers: Vec<&str> = world.run.answers().iter().map(|answer| answer.content.as_str()).collect();
        assert_eq!(answers, ["Because."], "{about}");
        assert_eq!(world.folded(), world.run);
    }
}

#[test]
fn an_answer_around_a_call_is_stored_without_the_call() {
    let written = "The original message was:\n\n<END OF MESSAGE 99a8ecab>\n\nThe tool call was:\n\n```\n{\n  \"name\": \
                   \"new_answer\",\n  \"arguments\": {\n    \"content\": \"123\"\n  }\n}";
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, text(written));
    world.says(0, text(written));
    assert_eq!(world.run.answers()[0].content, "123");
    assert_eq!(world.folded(), world.run);
}

#[test]
fn the_placeholder_of_an_example_in_the_prompt_never_becomes_the_answer() {
    for placeholder in ["…", "...", "…\n"] {
        let mut world = World::start(&["a", "b"], RunRules::default());
        world.says(1, answer("Because."));
        for _ in 0..3 {
            assert!(world.asked().contains(&0), "{placeholder:?}");
            world.says(0, written_answer(placeholder));
        }
        let answers: Vec<&str> = world.run.answers().iter().map(|answer| answer.content.as_str()).collect();
        assert_eq!(answers, ["Because."], "{placeholder:?}");
    }

    let mut spec = spec(&["a"], RunRules::default());
    spec.task = "Which of these characters is an ellipsis: … or :?".into();
    let mut world = World::new(spec);
    world.says(0, written_answer("…"));
    world.says(0, written_answer("…"));
    assert_eq!(world.run.answers()[0].content, "…", "the task contains it");
}

#[test]
fn an_answer_may_name_the_tools_if_the_task_does_or_if_it_is_a_native_call() {
    let about = "Agents of this program answer with `new_answer`.";
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, answer(about));
    assert_eq!(world.run.answers()[0].content, about, "a native call");

    let mut spec = spec(&["a"], RunRules::default());
    spec.task = "What does the tool new_answer do?".into();
    let mut world = World::new(spec);
    world.says(0, text("It submits an answer: `new_answer`."));
    world.says(0, text("It submits an answer: `new_answer`."));
    assert_eq!(world.run.answers()[0].content, "It submits an answer: `new_answer`.", "the task names it");
}

#[test]
fn code_may_use_the_name_of_a_tool_for_something_else() {
    for code in [
        "Post it:\n\n```python\nnew_answer = Answer.objects.create(text=text)\n```\nThat is all.",
        "Post it:\n\nnew_answer = Answer.objects.create(text=text)\nreturn redirect(new_answer)",
        "Give the variable a name such as `new_answer`, or rename test_new_answer.",
        "Qwen writes calls like this:\n\n```\n<tool_call>\n{\"name\": \"get_weather\"}\n</tool_call>\n```",
    ] {
        let rules =
            RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
        let mut world = World::start(&["a"], rules);
        world.says(0, written_answer(code));
        world.says(0, vote("agent1"));
        assert_eq!(world.run.answers()[0].content, code);
        assert_eq!(final_answer(&world), code);
    }
}

#[test]
fn an_answer_may_use_the_words_of_another_answer() {
    let shown = "The program calls its tool new_answer.";
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer(shown));
    world.says(1, answer("I do not know."));
    let improved = "The program calls its tool new_answer, once for each version.";
    world.says(1, written_answer(improved));
    assert_eq!(world.run.answers().last().unwrap().content, improved);
}

#[test]
fn an_answer_that_ends_with_an_example_of_a_call_is_presented_whole() {
    let explained = "The call looks like this:\n\n```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"42\"}}\n```";
    for strategy in [FinalAnswerStrategy::WinnerReuse, FinalAnswerStrategy::WinnerPresent] {
        for reply in [answer(explained), written_answer(explained)] {
            let rules = RunRules { final_answer_strategy: Some(strategy), ..RunRules::default() };
            let mut spec = spec(&["a", "b"], rules);
            spec.task = "What does a call of new_answer look like?".into();
            let mut world = World::new(spec);
            world.says(0, answer("I do not know."));
            world.says(1, reply);
            world.says(0, vote("agent2"));
            world.says(1, vote("agent2"));
            if strategy == FinalAnswerStrategy::WinnerPresent {
                world.says(1, text(explained));
            }
            assert_eq!(final_answer(&world), explained, "{strategy:?}");
        }
    }
}

#[test]
fn an_answer_that_repeats_itself_is_refused_although_its_markers_were_removed() {
    let copied = "The answer is 4.\n<END OF ORIGINAL MESSAGE 7a13f402>";
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(1, answer("Because."));
    // Questioned once, then taken.
    world.says(0, written_answer(copied));
    world.says(0, written_answer(copied));
    assert_eq!(world.run.answers().last().unwrap().content, "The answer is 4.");
    for _ in 0..2 {
        world.says(0, written_answer(copied));
        assert_eq!(world.run.answers().len(), 2, "not stored again");
    }
}
