//! Tables of texts that are no answers, as small models wrote them, and of honest texts that look similar.

use crate::coordination::answer_checks::{
    Sources, Weakness, of_first_answer, of_improvement, of_presentation,
};
use Weakness::{AboutAnswers, Announcement, Empty, LostCode, Markup, Offer, Refusal, ToolCall};

const SKY: &str = "Why is the sky blue?";
const SKY_ANSWER: &str = "The sky is blue because of Rayleigh scattering: molecules of the air scatter short wavelengths \
    much more strongly than long ones, so blue light reaches the eye from every direction.";

const REVERSE: &str = "Write a Python function that reverses a string.";
const REVERSE_ANSWER: &str = "Here is a Python function that reverses a string:\n\n```python\ndef reverse_string(text):\n    \
    \"\"\"Return the text in reverse order.\"\"\"\n    return text[::-1]\n\n\nif __name__ == \"__main__\":\n    \
    print(reverse_string(\"hello\"))\n```\n\nIt uses slicing with a step of -1.";

const DATABASE: &str = "Should we use PostgreSQL or MongoDB for an order system?";
const DATABASE_ANSWER: &str = "Use PostgreSQL. Orders are relational: customers, items and payments refer to each other, and \
    an order must be stored completely or not at all. PostgreSQL has transactions, foreign keys and mature backups; \
    JSONB covers the few flexible fields. MongoDB would pay off with documents of very different shapes and heavy \
    sharding, which an order system rarely needs.";

const LIMITER: &str = "Implement a rate limiter in Rust.";
const LIMITER_ANSWER: &str = "A token bucket:\n\n```rust\nuse std::time::{Duration, Instant};\n\npub struct Limiter {\n    \
    capacity: f64,\n    tokens: f64,\n    per_second: f64,\n    last: Instant,\n}\n\nimpl Limiter {\n    pub fn \
    new(capacity: f64, per_second: f64) -> Self {\n        Self { capacity, tokens: capacity, per_second, last: \
    Instant::now() }\n    }\n\n    pub fn try_acquire(&mut self) -> bool {\n        let now = Instant::now();\n        \
    let passed = now.duration_since(self.last).as_secs_f64();\n        self.tokens = (self.tokens + passed * \
    self.per_second).min(self.capacity);\n        self.last = now;\n        if self.tokens >= 1.0 {\n            \
    self.tokens -= 1.0;\n            return true;\n        }\n        false\n    }\n}\n```\n\nThe bucket refills \
    continuously.";

const INSTALL: &str = "How do I install ripgrep on Debian and search for TODO?";
const INSTALL_ANSWER: &str = "Install it with apt and then search:\n\n```sh\nsudo apt update\nsudo apt install ripgrep\nrg \
    TODO src/\n```";

const REFUSED: &str = "Write malware that steals passwords.";
const REFUSED_ANSWER: &str = "I'm sorry, but I can't help with creating malware.";

const PLAN: &str = "Plan a word counter.";
const PLAN_ANSWER: &str = "The plan:\n\n```json\n{\"tasks\": [\n  {\"id\": \"read\", \"description\": \"Read the \
    file\"},\n  {\"id\": \"count\", \"description\": \"Count the words\", \"depends_on\": [\"read\"]}\n]}\n```";

fn sources<'a>(task: &'a str, basis: &'a str) -> Sources<'a> {
    let others = if task == SKY { vec!["Sunlight is scattered by the atmosphere."] } else { Vec::new() };
    Sources { task, basis, others }
}

const WEAK_PRESENTATIONS: &[(&str, &str, &str, Weakness)] = &[
    (SKY, SKY_ANSWER, "", Empty),
    (SKY, SKY_ANSWER, "  \n\t ", Empty),
    (SKY, SKY_ANSWER, "...", Empty),
    (SKY, SKY_ANSWER, "---\n***", Empty),
    (REVERSE, REVERSE_ANSWER, "```\n```", Empty),
    (SKY, SKY_ANSWER, "<END OF VOTES>", Markup),
    (SKY, SKY_ANSWER, "<END OF ORIGINAL MESSAGE 3f9c2a17>", Markup),
    (SKY, SKY_ANSWER, "<end of agent1.1 3f9c2a17>\n<end of agent1.1 3f9c2a17>", Markup),
    (SKY, SKY_ANSWER, "```\n<END OF VOTES>\n```", Markup),
    (SKY, SKY_ANSWER, "The sky is blue because of scattering.\n<END OF FINAL ANSWER>", Markup),
    (
        SKY,
        SKY_ANSWER,
        "<ORIGINAL MESSAGE 3f9c2a17>\nWhy is the sky blue?\n<END OF ORIGINAL MESSAGE 3f9c2a17>",
        Markup,
    ),
    (SKY, SKY_ANSWER, "<vote for agent2 3f9c2a17>\nit is right\n<end of vote for agent2 3f9c2a17>", Markup),
    (SKY, SKY_ANSWER, "<agent1.1 3f9c2a17>\nRayleigh scattering.", Markup),
    (SKY, SKY_ANSWER, "<END OF ANSWERS>\n<END OF VOTES>\n<END OF PLAN>", Markup),
    (SKY, SKY_ANSWER, "<|im_start|>\n<|im_end|>", Markup),
    (SKY, SKY_ANSWER, "</s>", Markup),
    (SKY, SKY_ANSWER, "<tool_call>\n</tool_call>", Markup),
    (SKY, SKY_ANSWER, "[INST] [/INST]", Markup),
    (SKY, SKY_ANSWER, r#"{"name": "vote", "arguments": {"agent_id": "agent1", "reason": "best"}}"#, ToolCall),
    (
        SKY,
        SKY_ANSWER,
        "```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Rayleigh.\"}}\n```",
        ToolCall,
    ),
    (
        SKY,
        SKY_ANSWER,
        "<tools>{\"name\": \"new_answer\", \"arguments\": {\"content\": \"blue\"}}</tools>",
        ToolCall,
    ),
    (SKY, SKY_ANSWER, "<tool_call>\n{\"name\": \"submit\", \"arguments\": {}}\n</tool_call>", ToolCall),
    (
        SKY,
        SKY_ANSWER,
        r#"{"name": "new_answer", "arguments": {"content": "The sky is blue because of Ray"#,
        ToolCall,
    ),
    (
        SKY,
        SKY_ANSWER,
        "The tool call is:\n\n```json\n{\n  \"name\": \"new_answer\",\n  \"arguments\": {\n    \"content\": \"…\"\n  }",
        ToolCall,
    ),
    (
        SKY,
        SKY_ANSWER,
        "I choose this one.\n<tool_call>\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent1\"}}\n</tool_call>",
        ToolCall,
    ),
    (SKY, SKY_ANSWER, r#"{"agent_id": "agent2", "reason": "clearest"}"#, ToolCall),
    (SKY, SKY_ANSWER, r#"{"content": "Rayleigh scattering."}"#, ToolCall),
    (SKY, SKY_ANSWER, "vote(agent_id=\"agent1\", reason=\"best\")", ToolCall),
    (SKY, SKY_ANSWER, r#"[{"function": {"name": "vote", "arguments": "{}"}}]"#, ToolCall),
    (SKY, SKY_ANSWER, r#"{"type": "json", "data": {"name": "new_answer"}}"#, ToolCall),
    (SKY, SKY_ANSWER, "I am ready to assist you.", Offer),
    (SKY, SKY_ANSWER, "I'm ready to help! Please provide the question you would like me to answer.", Offer),
    (REVERSE, REVERSE_ANSWER, "Hello! How can I assist you today?", Offer),
    (REVERSE, REVERSE_ANSWER, "Sure, please provide the code you want me to review.", Offer),
    (SKY, SKY_ANSWER, "Understood. Let me know what you would like me to do next.", Offer),
    (SKY, SKY_ANSWER, "Of course! I'd be happy to help. What do you need?", Offer),
    (SKY, SKY_ANSWER, "Thank you for your patience. What would you like to know?", Offer),
    (REVERSE, REVERSE_ANSWER, "Could you please clarify the requirements?", Offer),
    (REVERSE, REVERSE_ANSWER, "I am an AI assistant created by Alibaba Cloud.", Offer),
    (REVERSE, REVERSE_ANSWER, "I'm sorry, but I can't assist with that.", Refusal),
    (
        REVERSE,
        REVERSE_ANSWER,
        "I\u{2019}m sorry, but I can\u{2019}t provide the code for this function.",
        Refusal,
    ),
    (
        REVERSE,
        REVERSE_ANSWER,
        "I apologize for the confusion, but I am unable to complete the request.",
        Refusal,
    ),
    (SKY, SKY_ANSWER, "Sorry, I cannot answer this question.", Refusal),
    (SKY, SKY_ANSWER, "As an AI language model, I do not have access to the previous messages.", Refusal),
    (SKY, SKY_ANSWER, "I cannot provide a final answer without more information.", Refusal),
    (SKY, SKY_ANSWER, "Unfortunately, I am not able to help you with this request at the moment.", Refusal),
    (SKY, SKY_ANSWER, "I don't have enough information to answer.", Refusal),
    (DATABASE, DATABASE_ANSWER, "My apologies for the mistake. I will try again.", Refusal),
    (DATABASE, DATABASE_ANSWER, "I'm unable to give recommendations on that topic.", Refusal),
    (SKY, SKY_ANSWER, "Here is the final answer:", Announcement),
    (SKY, SKY_ANSWER, "Here is the final answer.", Announcement),
    (REVERSE, REVERSE_ANSWER, "Sure! The reversed version is shown below:", Announcement),
    (REVERSE, REVERSE_ANSWER, "The function reverses a string by slicing.", LostCode),
    (
        REVERSE,
        REVERSE_ANSWER,
        "This function takes a string and returns it in reverse order. It works by slicing.",
        LostCode,
    ),
    (
        REVERSE,
        REVERSE_ANSWER,
        "I'm sorry to say that the earlier code had an issue. The issue was resolved.",
        LostCode,
    ),
    (LIMITER, LIMITER_ANSWER, "The rate limiter is a token bucket that refills continuously.", LostCode),
    (LIMITER, LIMITER_ANSWER, "Use it like this:\n\n```rust\nlimiter.try_acquire();\n```", LostCode),
    (LIMITER, LIMITER_ANSWER, "```\nA rate limiter in Rust.\n```", LostCode),
    (PLAN, PLAN_ANSWER, "First read the file, then count the words.", LostCode),
    (SKY, SKY_ANSWER, "The best answer is agent1.", AboutAnswers),
    (
        DATABASE,
        DATABASE_ANSWER,
        "Agent 2's answer is correct and complete. It got the most votes.",
        AboutAnswers,
    ),
    (
        DATABASE,
        DATABASE_ANSWER,
        "I vote for agent1's answer because it is clear and well organized.",
        AboutAnswers,
    ),
];

const HONEST_PRESENTATIONS: &[(&str, &str, &str)] = &[
    (SKY, SKY_ANSWER, SKY_ANSWER),
    (SKY, SKY_ANSWER, "Because of Rayleigh scattering."),
    (
        SKY,
        SKY_ANSWER,
        "Sunlight meets molecules in the atmosphere, and shorter waves are redirected far more.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "**Short answer:** Rayleigh scattering.\n\n## Why\n\n- Violet and blue have short wavelengths.\n- Our eyes see blue better.",
    ),
    (SKY, SKY_ANSWER, "final"),
    (SKY, SKY_ANSWER, "Presentation by model-b"),
    (SKY, SKY_ANSWER, "Done."),
    (SKY, SKY_ANSWER, "El cielo es azul por la dispersión de Rayleigh."),
    (SKY, SKY_ANSWER, "空が青いのはレイリー散乱のためです。"),
    (
        SKY,
        SKY_ANSWER,
        "I'm sorry, I can't give the full derivation here, but the reason is Rayleigh scattering: molecules scatter short wavelengths, blue light, more strongly.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "Unfortunately, the popular explanation by reflection from the sea is wrong. Rayleigh scattering by molecules of the air is the reason.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "Sure! The sky is blue because air molecules scatter blue light more strongly than red light.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "Let me know if you want the formula. The reason is Rayleigh scattering: short wavelengths are scattered more strongly.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "I can't see a simpler way to put it than this: Rayleigh scattering sends blue light to the eye from every direction.",
    ),
    (
        SKY,
        SKY_ANSWER,
        "As an AI I cannot look at the sky, but the physics is clear: Rayleigh scattering of short wavelengths by molecules of the air.",
    ),
    (SKY, SKY_ANSWER, "Here is the final answer: Rayleigh scattering."),
    (
        SKY,
        SKY_ANSWER,
        "In HTML you would write `<END OF VOTES>` in code, but the sky is blue because of scattering.",
    ),
    (SKY, SKY_ANSWER, "The sky is blue <b>because</b> of <i>Rayleigh</i> scattering.<br>"),
    (REVERSE, REVERSE_ANSWER, REVERSE_ANSWER),
    (REVERSE, REVERSE_ANSWER, "```python\ndef reverse_string(text):\n    return text[::-1]\n```"),
    (
        REVERSE,
        REVERSE_ANSWER,
        "def reverse_string(text):\n    return text[::-1]\n\nprint(reverse_string(\"hello\"))",
    ),
    (
        REVERSE,
        REVERSE_ANSWER,
        "Use this:\n\n    def rev(s: str) -> str:\n        return \"\".join(reversed(s))\n",
    ),
    (REVERSE, REVERSE_ANSWER, "```python\nrev = lambda s: s[::-1]\n```"),
    (
        REVERSE,
        REVERSE_ANSWER,
        "```py\ndef backwards(value: str) -> str:\n    return \"\".join(reversed(value))\n```\nWorks for any string.",
    ),
    (REVERSE, REVERSE_ANSWER, "~~~python\ndef reverse_string(text):\n    return text[::-1]\n~~~"),
    (
        REVERSE,
        REVERSE_ANSWER,
        "Sorry, the docstring was misleading and could not stay; corrected:\n\n```python\ndef reverse_string(text):\n    return text[::-1]\n```",
    ),
    (DATABASE, DATABASE_ANSWER, "PostgreSQL."),
    (DATABASE, DATABASE_ANSWER, "Use PostgreSQL: orders are relational and need transactions."),
    (
        DATABASE,
        DATABASE_ANSWER,
        "I can't recommend MongoDB here. PostgreSQL gives you transactions and foreign keys, which orders need.",
    ),
    (
        DATABASE,
        DATABASE_ANSWER,
        "I'd be happy with either for a prototype, but for orders use PostgreSQL: transactions, foreign keys, mature backups.",
    ),
    (
        DATABASE,
        DATABASE_ANSWER,
        "Unfortunately you cannot have both cheaply. PostgreSQL: transactions, foreign keys, JSONB. MongoDB: sharding, flexible documents.",
    ),
    (
        DATABASE,
        DATABASE_ANSWER,
        "Decision: PostgreSQL\n\n| | PostgreSQL | MongoDB |\n|---|---|---|\n| transactions | yes | limited |\n| foreign keys | yes | no |",
    ),
    (
        DATABASE,
        DATABASE_ANSWER,
        "Both agent1 and agent2 recommend it, and so do I: PostgreSQL, because orders, customers, items and payments are relational, an order must be stored completely, and transactions, foreign keys, mature backups and JSONB cover flexible fields. MongoDB pays off with documents of different shapes and heavy sharding.",
    ),
    (LIMITER, LIMITER_ANSWER, LIMITER_ANSWER),
    (
        LIMITER,
        LIMITER_ANSWER,
        "```rust\npub struct Bucket { left: f64, rate: f64, at: std::time::Instant }\n\nimpl Bucket {\n    pub fn take(&mut self) -> bool {\n        let dt = self.at.elapsed().as_secs_f64();\n        self.at = std::time::Instant::now();\n        self.left = (self.left + dt * self.rate).min(10.0);\n        if self.left < 1.0 { return false; }\n        self.left -= 1.0;\n        true\n    }\n}\n```",
    ),
    (
        LIMITER,
        LIMITER_ANSWER,
        "The `governor` crate does this well:\n\n```rust\nuse governor::{Quota, RateLimiter};\nlet limiter = RateLimiter::direct(Quota::per_second(nonzero!(10u32)));\nif limiter.check().is_ok() {\n    handle();\n}\n```",
    ),
    (INSTALL, INSTALL_ANSWER, "Run `sudo apt update`, then `sudo apt install ripgrep`, then `rg TODO src/`."),
    (INSTALL, INSTALL_ANSWER, "```console\n$ sudo apt install ripgrep\n$ rg TODO\n```"),
    (INSTALL, INSTALL_ANSWER, "sudo apt install ripgrep\nrg TODO src/"),
    (
        REFUSED,
        REFUSED_ANSWER,
        "I'm sorry, but I can't help with that. If you want to protect passwords, I can help.",
    ),
    (REFUSED, REFUSED_ANSWER, "I cannot help with this."),
    (
        PLAN,
        PLAN_ANSWER,
        "```json\n{\"tasks\": [{\"id\": \"count\", \"description\": \"Count words with a small script\"}]}\n```",
    ),
    (
        PLAN,
        PLAN_ANSWER,
        "{\"tasks\": [\n{\"id\": \"read\", \"description\": \"Read\"},\n{\"id\": \"count\", \"description\": \"Count\"}\n]}",
    ),
    ("What is 6 times 7?", "6 × 7 = 42", "42"),
    ("What is 6 times 7?", "6 × 7 = 42", "I can't think of a shorter answer than 42."),
    ("Which HTML tag breaks a line?", "<br>", "<br>"),
    ("Which symbol means implication?", "⇒", "⇒"),
    (
        "Write a polite reminder about the invoice.",
        "Please send the payment for invoice 1041 by Friday. Thank you!",
        "Please send us the payment of invoice 1041 until Friday, many thanks.",
    ),
    (
        "Explain our prompt format.",
        "A prompt ends with <END OF PROMPT> on its own line.",
        "Every prompt ends with the line <END OF PROMPT>.",
    ),
    (
        "Give me the JSON for a user.",
        "{\"name\": \"Ada\", \"role\": \"admin\"}",
        "{\"name\": \"Ada\", \"role\": \"admin\"}",
    ),
    ("Give me a JSON reply with content.", "{\"content\": \"Hello\"}", "{\"content\": \"Hello!\"}"),
    (
        "Comfort my friend who lost her dog.",
        "I'm sorry for your loss. Rex was a wonderful companion.",
        "I'm so sorry about Rex. You couldn't have loved him more.",
    ),
    (
        "What does agent1 do in this config?",
        "It reviews the pull requests of the team and comments on style, tests and documentation.",
        "agent1 reviews pull requests.",
    ),
];

#[test]
fn weak_presentations_are_not_taken() {
    assert!(WEAK_PRESENTATIONS.len() >= 40);
    let wrong: Vec<String> = WEAK_PRESENTATIONS
        .iter()
        .filter_map(|(task, basis, text, expected)| {
            let found = of_presentation(text, &sources(task, basis), false);
            (found != Some(*expected)).then(|| format!("{text:?}: {found:?} instead of {expected:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn honest_presentations_are_taken_whatever_their_words_are() {
    assert!(HONEST_PRESENTATIONS.len() >= 40);
    let wrong: Vec<String> = HONEST_PRESENTATIONS
        .iter()
        .filter_map(|(task, basis, text)| {
            let found = of_presentation(text, &sources(task, basis), false)?;
            Some(format!("{text:?}: {found:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_weak_presentation_is_taken_if_it_is_the_answer_that_was_chosen() {
    for (task, _, text, weakness) in WEAK_PRESENTATIONS {
        // Without code in the chosen answer, none can be lost.
        let found = of_presentation(text, &sources(task, text), false);
        assert!(found.is_none() || text.trim().is_empty(), "{text:?}: {weakness:?}, {found:?}");
    }
}

#[test]
fn a_presenter_that_works_on_files_may_point_to_them_and_report_a_failure() {
    let texts = [
        "I added the limiter to src/limiter.rs and a test for it.",
        "I'm sorry, I could not write to src/limiter.rs: the directory is read-only.",
        "See src/limiter.rs.",
    ];
    for text in texts {
        assert_eq!(of_presentation(text, &sources(LIMITER, LIMITER_ANSWER), true), None, "{text}");
    }
    for (text, weakness) in [("I am ready to assist you.", Offer), ("<END OF VOTES>", Markup), (" ", Empty)] {
        assert_eq!(of_presentation(text, &sources(LIMITER, LIMITER_ANSWER), true), Some(weakness), "{text}");
    }
}

#[test]
fn an_improved_answer_that_is_only_a_critique_is_weak() {
    let weak = [
        (
            REVERSE,
            REVERSE_ANSWER,
            "agent1's answer is good, but it should handle empty strings and add a docstring.",
            LostCode,
        ),
        (
            REVERSE,
            REVERSE_ANSWER,
            "The code is correct. I would only suggest better variable names.",
            LostCode,
        ),
        (LIMITER, LIMITER_ANSWER, "Agent 2's answer uses a token bucket, which is fine.", LostCode),
        (DATABASE, DATABASE_ANSWER, "I agree with agent2's answer; it is more detailed.", AboutAnswers),
        (SKY, SKY_ANSWER, "I am ready to assist you.", Offer),
        (SKY, SKY_ANSWER, "<END OF VOTES>", Markup),
    ];
    for (task, basis, text, weakness) in weak {
        assert_eq!(of_improvement(text, &sources(task, basis), false), Some(weakness), "{text}");
    }
    let of_other = Sources { task: REVERSE, basis: "Use slicing.", others: vec![REVERSE_ANSWER] };
    let critique = "agent1's function works, but agent1 should add a test for empty strings.";
    assert_eq!(of_improvement(critique, &of_other, false), Some(AboutAnswers), "its own answer had no code");
}

#[test]
fn an_honest_improvement_is_not_weak() {
    let honest = [
        (
            REVERSE,
            REVERSE_ANSWER,
            "```python\ndef reverse_string(text: str) -> str:\n    return text[::-1]\n```",
        ),
        (
            REVERSE,
            REVERSE_ANSWER,
            "agent2 is right about types:\n\n```python\ndef reverse(text: str) -> str:\n    return text[::-1]\n```",
        ),
        (DATABASE, DATABASE_ANSWER, "PostgreSQL, because orders need transactions and foreign keys."),
        (SKY, SKY_ANSWER, "Rayleigh scattering, with the inverse fourth power of the wavelength."),
        (SKY, SKY_ANSWER, "better"),
    ];
    for (task, basis, text) in honest {
        assert_eq!(of_improvement(text, &sources(task, basis), false), None, "{text}");
    }
}

#[test]
fn a_first_answer_may_refuse_but_not_offer_help() {
    assert_eq!(of_first_answer(REFUSED_ANSWER, &sources(REFUSED, "")), None);
    assert_eq!(of_first_answer("The sky is blue.", &sources(SKY, "")), None);
    assert_eq!(of_first_answer("I am ready to assist you.", &sources(SKY, "")), Some(Offer));
    assert_eq!(of_first_answer("<END OF ORIGINAL MESSAGE 3f9c2a17>", &sources(SKY, "")), Some(Markup));
}
