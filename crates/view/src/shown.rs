//! What a person is shown of a question. In its texts, invisible characters and characters that change the order of
//! others become visible, because they could hide a part of what is approved. Structs are destructured without `..`, so
//! that no new field is forgotten. Ids and names of agents stay as they are, because a person's reply to the
//! question contains them.

use althing_protocol::{
    Ask, AskOption, Candidate, EditPreview, FileDiff, Interaction, InteractionKind, LaunchRun, PathGrant,
    Proposal,
};
use althing_text::sanitize::{visible, visible_line};
use serde_json::Value;

/// The question for a person. The launch of a proposal stays as it is, because a person may change it; it is shown
/// with [`launch`].
#[must_use]
pub fn interaction(asked: &Interaction) -> Interaction {
    let kind = match asked.kind.clone() {
        InteractionKind::Program(asked) => InteractionKind::Program(ask(asked)),
        InteractionKind::RunApproval { proposal: asked } => {
            let launch = asked.launch.clone();
            InteractionKind::RunApproval { proposal: Box::new(Proposal { launch, ..proposal(&asked) }) }
        }
        InteractionKind::PlanApproval { plan, preview } => {
            InteractionKind::PlanApproval { plan, preview: texts(&preview) }
        }
        InteractionKind::EditApproval { call, preview } => {
            InteractionKind::EditApproval { call, preview: edit(preview) }
        }
        InteractionKind::WinnerOverride { winner, candidates } => {
            let candidates = candidates
                .into_iter()
                .map(|Candidate { agent, label, votes, preview }| {
                    let preview = visible(&preview).into_owned();
                    Candidate { agent, label, votes, preview }
                })
                .collect();
            InteractionKind::WinnerOverride { winner, candidates }
        }
        kind @ (InteractionKind::Budget { .. } | InteractionKind::Interrupted) => kind,
    };
    Interaction { id: asked.id.clone(), kind, countdown: asked.countdown }
}

/// The proposal as a person is shown it.
#[must_use]
pub fn proposal(asked: &Proposal) -> Proposal {
    let Proposal {
        launch: asked_launch,
        members,
        modes,
        chosen,
        may_read,
        may_write,
        costs,
        not_signed_in,
        digest,
    } = asked.clone();
    Proposal {
        launch: launch(&asked_launch),
        members,
        modes,
        chosen,
        may_read: may_read.iter().map(|path| visible_line(path)).collect(),
        may_write: may_write.iter().map(|path| visible_line(path)).collect(),
        costs,
        not_signed_in,
        digest,
    }
}

/// The launch as a person is shown it.
#[must_use]
pub fn launch(asked: &LaunchRun) -> LaunchRun {
    let LaunchRun {
        task,
        context,
        agent_mode,
        agents,
        refinement,
        planning_mode,
        execute_after_planning,
        context_paths,
        agent_system_prompts,
        coordination_overrides,
    } = asked.clone();
    let grant = |PathGrant { path, permission }| PathGrant { path: visible_line(&path), permission };
    let prompt = |(agent, text): (_, String)| (agent, visible(&text).into_owned());
    let rule = |(key, value): (String, Value)| (visible_line(&key), shown_value(value));
    LaunchRun {
        task: visible(&task).into_owned(),
        context: context.map(|text| visible(&text).into_owned()),
        agent_mode,
        agents,
        refinement,
        planning_mode,
        execute_after_planning,
        context_paths: context_paths.into_iter().map(grant).collect(),
        agent_system_prompts: agent_system_prompts.into_iter().map(prompt).collect(),
        coordination_overrides: coordination_overrides.into_iter().map(rule).collect(),
    }
}

fn ask(asked: Ask) -> Ask {
    let Ask { about, text, options, native } = asked;
    let option = |AskOption { id, label }| AskOption { id, label: visible_line(&label) };
    Ask {
        about,
        text: visible(&text).into_owned(),
        options: options.into_iter().map(option).collect(),
        native,
    }
}

fn edit(preview: EditPreview) -> EditPreview {
    let EditPreview { project, files, ask, digest } = preview;
    let file = |FileDiff { path, change, added, removed, diff, omitted, note }| FileDiff {
        path: visible_line(&path),
        change,
        added,
        removed,
        diff: visible(&diff).into_owned(),
        omitted,
        note: note.map(|note| visible(&note).into_owned()),
    };
    let project = visible_line(&project);
    EditPreview { project, files: files.into_iter().map(file).collect(), ask, digest }
}

fn texts(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| visible(text).into_owned()).collect()
}

fn shown_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(shown_value).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (visible_line(&key), shown_value(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Audience, ask, launch_question};
    use crate::session::SessionView;
    use althing_protocol::{AskKind, Event, Fact, FeedItem, FileChange, Modes, Seq, Timestamp};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const HIDDEN: &str = "ls\r\u{202e}\u{200b}\u{e0041}\u{2800}\u{3164}\u{1b}x";
    const SHOWN: &str = "ls␍\\u{202e}\\u{200b}\\u{e0041}\\u{2800}\\u{3164}␛x";

    fn hidden() -> String {
        HIDDEN.to_owned()
    }

    fn proposal_with_hidden_characters() -> Proposal {
        let launch = LaunchRun {
            task: hidden(),
            context: Some(hidden()),
            context_paths: vec![PathGrant {
                path: hidden(),
                permission: althing_protocol::Permission::Write,
            }],
            agent_system_prompts: BTreeMap::from([("a".into(), hidden())]),
            coordination_overrides: [(hidden(), Value::from(HIDDEN))].into_iter().collect(),
            ..LaunchRun::default()
        };
        Proposal {
            launch,
            members: Vec::new(),
            modes: Modes::default(),
            chosen: Vec::new(),
            may_read: vec![hidden()],
            may_write: vec![hidden()],
            costs: None,
            not_signed_in: BTreeMap::new(),
            digest: "d".into(),
        }
    }

    fn kinds() -> Vec<InteractionKind> {
        let option = AskOption { id: "allow".into(), label: hidden() };
        let permission =
            Ask { about: AskKind::Permission, text: hidden(), options: vec![option], native: None };
        let file = FileDiff {
            path: hidden(),
            change: FileChange::New,
            added: 1,
            removed: 0,
            diff: format!("+{HIDDEN}"),
            omitted: 0,
            note: Some(hidden()),
        };
        let preview = EditPreview { project: hidden(), files: vec![file], ask: true, digest: "d".into() };
        vec![
            InteractionKind::Program(permission.clone()),
            InteractionKind::Program(Ask { options: Vec::new(), ..permission }),
            InteractionKind::RunApproval { proposal: Box::new(proposal_with_hidden_characters()) },
            InteractionKind::PlanApproval {
                plan: althing_protocol::PlanRef { id: "p".into(), path: "/p".into() },
                preview: vec![hidden()],
            },
            InteractionKind::EditApproval { call: "c".into(), preview },
        ]
    }

    #[test]
    fn every_hidden_character_of_a_question_is_shown_to_the_person_who_answers() {
        for (n, kind) in (1..).zip(kinds()) {
            let interaction = Interaction { id: "i".into(), kind, countdown: None };
            let fact = Fact::InteractionOpened(interaction);
            let mut view = SessionView::default();
            let (seq, at) = (Seq(n), Timestamp(0));
            let event = Event { seq, at, task: None, cause: None, fact };
            view.apply(&FeedItem::Event(Arc::new(event)));
            let question = &view.questions[0].interaction;
            for reader in [Audience::Script, Audience::Person] {
                let asked = ask(&question.kind, reader);
                assert!(asked.contains(SHOWN), "{asked:?}");
                assert!(
                    !asked.contains(['\r', '\u{202e}', '\u{200b}', '\u{e0041}', '\u{2800}']),
                    "{asked:?}"
                );
            }
        }
        let asked = launch_question(&proposal_with_hidden_characters());
        // Task, context, prompt, key of a rule (its value is JSON), read path, written path.
        assert_eq!(asked.matches(SHOWN).count(), 6, "{asked}");
        assert!(!asked.contains(['\r', '\u{202e}', '\u{200b}', '\u{e0041}', '\u{2800}']), "{asked:?}");
    }

    #[test]
    fn what_a_person_does_not_change_in_a_launch_stays_as_it_was() {
        let proposal = proposal_with_hidden_characters();
        let kind = InteractionKind::RunApproval { proposal: Box::new(proposal.clone()) };
        let shown = interaction(&Interaction { id: "i".into(), kind, countdown: None });
        let InteractionKind::RunApproval { proposal: kept } = shown.kind else { panic!("{shown:?}") };
        assert_eq!(kept.launch, proposal.launch);
        assert_eq!(launch(&proposal.launch).task, SHOWN);
    }
}
