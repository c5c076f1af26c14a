//! Phrases with which models refuse, offer help, announce an answer, or refer back to one.

const INTERJECTIONS: [&str; 18] = [
    "sure",
    "okay",
    "ok",
    "certainly",
    "hello",
    "hi there",
    "hi",
    "hey",
    "understood",
    "of course",
    "great",
    "absolutely",
    "yes",
    "got it",
    "i understand",
    "thank you",
    "thanks",
    "welcome",
];

const APOLOGIES: [&str; 17] = [
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i'm really sorry",
    "i'm very sorry",
    "i apologize",
    "i apologise",
    "my apologies",
    "apologies",
    "i'm afraid",
    "i am afraid",
    "unfortunately",
    "regrettably",
    "as an ai",
    "as a language model",
    "as a large language model",
    "i'm just an ai",
];

/// An apology counts as a refusal only together with one of these.
const INABILITIES: [&str; 26] = [
    "can't",
    "cannot",
    "can not",
    "unable to",
    "not able to",
    "couldn't",
    "could not",
    "don't have access",
    "do not have access",
    "don't have the ability",
    "not comfortable",
    "did not provide",
    "didn't provide",
    "haven't provided",
    "don't understand",
    "do not understand",
    "need more information",
    "please provide",
    "not sure what you",
    "for the confusion",
    "for any confusion",
    "for the misunderstanding",
    "for the inconvenience",
    "for the error",
    "for the mistake",
    "beyond my",
];

const REFUSALS: [&str; 16] = [
    "i can't",
    "i cannot",
    "i can not",
    "i'm unable to",
    "i am unable to",
    "i'm not able to",
    "i am not able to",
    "i won't be able",
    "i will not be able",
    "i don't have access",
    "i do not have access",
    "i don't have enough",
    "i do not have enough",
    "i need more information",
    "i'm not sure what you",
    "i must decline",
];

const OFFERS: [&str; 43] = [
    "i'm ready",
    "i am ready",
    "ready to help",
    "ready to assist",
    "how can i help",
    "how can i assist",
    "how may i",
    "i'm here to help",
    "i am here to help",
    "i'm here to assist",
    "i am here to assist",
    "what can i do for you",
    "what can i help",
    "what would you like",
    "what do you need",
    "please provide",
    "please share",
    "please give me",
    "please send",
    "please specify",
    "please let me know",
    "let me know",
    "could you please",
    "could you provide",
    "can you please provide",
    "can you provide",
    "i'd be happy to",
    "i would be happy to",
    "i'll be happy to",
    "i'm happy to",
    "i am happy to",
    "i'd be glad to",
    "i would be glad to",
    "i can help you",
    "feel free to",
    "is there anything",
    "i'll do my best",
    "i will do my best",
    "i'm an ai assistant",
    "i am an ai assistant",
    "i'm qwen",
    "i am qwen",
    "thank you for your patience",
];

const POINTS_BACK: [&str; 10] = [
    "i have already",
    "i've already",
    "i already",
    "as i said",
    "as stated above",
    "as mentioned",
    "see above",
    "see my previous",
    "the answer is above",
    "my answer is above",
];

const ANNOUNCEMENTS: [&str; 5] = [
    "here is the final answer",
    "here's the final answer",
    "the final answer is as follows",
    "here is my final answer",
    "i will now present the final answer",
];

/// The beginning of a text: its first 300 characters in lower case, without leading interjections; apostrophes are
/// straightened and whitespace is collapsed.
fn beginning(text: &str) -> String {
    let start: String = text.trim_start().chars().take(300).collect();
    let plain = start.to_lowercase().replace(['\u{2019}', '\u{2018}'], "'");
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = words.as_str();
    loop {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let shorter = INTERJECTIONS.iter().find_map(|word| {
            rest.strip_prefix(word)
                .filter(|rest| rest.starts_with([',', '!', '.', ':', ';', '-', '\u{2014}']))
        });
        match shorter {
            Some(shorter) => rest = shorter,
            None => return rest.to_owned(),
        }
    }
}

fn begins_with(beginning: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| {
        let rest = beginning.strip_prefix(phrase);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
    })
}

pub(super) fn is_refusal(text: &str) -> bool {
    let beginning = beginning(text);
    let apologizes = begins_with(&beginning, &APOLOGIES);
    begins_with(&beginning, &REFUSALS)
        || (apologizes && INABILITIES.iter().any(|phrase| beginning.contains(phrase)))
}

pub(super) fn is_offer(text: &str) -> bool {
    begins_with(&beginning(text), &OFFERS)
}

pub(super) fn is_announcement(text: &str) -> bool {
    let beginning = beginning(text);
    let phrase = beginning.trim_end_matches(|c: char| !c.is_alphanumeric());
    text.trim_end().ends_with(':') || ANNOUNCEMENTS.contains(&phrase)
}

pub(super) fn points_back(text: &str) -> bool {
    text.chars().take(201).count() <= 200 && begins_with(&beginning(text), &POINTS_BACK)
}
