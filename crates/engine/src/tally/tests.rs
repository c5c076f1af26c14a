//! Compares the count with a naive one on all small elections, and tests properties that every fair count has.

use super::{Contender, Election, Rule, TieBreak, count, is_decided};
use althing_protocol::{AgentId, Ballot, DecidedBy, DecisionRule};
use std::collections::BTreeMap;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const BORDA: Rule = Rule { method: DecisionRule::Borda, merge_conclusions: true, unanimity: false };

fn contender(member_index: usize, conclusion: Option<&str>) -> Contender {
    Contender {
        agent: NAMES[member_index].into(),
        member_index,
        conclusion: conclusion.map(str::to_owned),
        newest: member_index as u32 + 1,
    }
}

fn ballot(voter: usize, choices: &[usize]) -> Ballot {
    let ranking: Vec<AgentId> = choices.iter().map(|choice| NAMES[*choice].into()).collect();
    Ballot { voter: NAMES[voter].into(), target: ranking[0].clone(), reason: String::new(), ranking }
}

fn election(conclusions: &[Option<&str>], ballots: &[&[usize]], seed: u64) -> Election {
    Election {
        candidates: conclusions.iter().enumerate().map(|(at, text)| contender(at, *text)).collect(),
        agents: conclusions.len(),
        ballots: ballots.iter().enumerate().map(|(voter, choices)| ballot(voter, choices)).collect(),
        anybody_voted: !ballots.is_empty(),
        seed,
    }
}

fn winner(election: &Election, rule: Rule) -> usize {
    count(election, rule).ranking[0]
}

/// All rankings of some of `n` candidates, whole and partial.
fn rankings(n: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    let mut at = 0;
    while at < all.len() {
        let known = all[at].clone();
        all.extend(
            (0..n).filter(|next| !known.contains(next)).map(|next| [known.clone(), vec![next]].concat()),
        );
        at += 1;
    }
    all.retain(|ranking| !ranking.is_empty());
    all
}

fn all_elections(n: usize, voters: usize, test: &mut dyn FnMut(&[&[usize]])) {
    let rankings = rankings(n);
    let mut chosen = vec![0; voters];
    loop {
        let ballots: Vec<&[usize]> = chosen.iter().map(|at| rankings[*at].as_slice()).collect();
        test(&ballots);
        let Some(at) = chosen.iter().position(|at| at + 1 < rankings.len()) else { return };
        chosen[at] += 1;
        chosen[..at].fill(0);
    }
}

/// The points, computed pair by pair: for each candidate, the number of candidates that each ballot ranks below it.
/// Candidates that conclude alike count as one.
fn naive_points(n: usize, alike: &dyn Fn(usize, usize) -> bool, ballots: &[&[usize]]) -> Vec<usize> {
    let same = |one: usize, other: usize| one == other || alike(one, other);
    let place =
        |ballot: &[usize], one: usize| ballot.iter().position(|it| same(one, *it)).unwrap_or(usize::MAX);
    // Of the candidates that conclude alike, the first stands for all.
    let heads = || (0..n).filter(|one| !(0..*one).any(|earlier| same(earlier, *one)));
    let beaten = |ballot: &[usize], one: usize| {
        heads().filter(|other| !same(one, *other) && place(ballot, one) < place(ballot, *other)).count()
    };
    (0..n).map(|one| ballots.iter().map(|ballot| beaten(ballot, one)).sum()).collect()
}

/// The winner by comparing everything with everything: `groups` are the candidates that are counted as one, and `among`
/// those that can win. The voter of a ballot is the candidate at its place in the list.
fn naive_best(groups: &[Vec<usize>], among: &[usize], ballots: &[&[usize]], seed: u64) -> (usize, TieBreak) {
    let place = |ballot: &[usize], group: usize| {
        let places = groups[group].iter().filter_map(|one| ballot.iter().position(|it| it == one));
        places.min().unwrap_or(usize::MAX)
    };
    let above = |ballot: &[usize], one: usize, other: usize| place(ballot, one) < place(ballot, other);
    let beaten = |ballot: &[usize], one: usize| -> i64 {
        (0..groups.len()).map(|other| i64::from(above(ballot, one, other))).sum()
    };
    let points = |one: usize| ballots.iter().map(|ballot| beaten(ballot, one)).sum::<i64>();
    let from_others = |one: usize| {
        let others = ballots.iter().enumerate().filter(|(voter, _)| !groups[one].contains(voter));
        others.map(|(_, ballot)| beaten(ballot, one)).sum::<i64>()
    };
    let prefer = |one: usize, other: usize| ballots.iter().filter(|it| above(it, one, other)).count();
    let draw = |one: usize| {
        let draws = groups[one].iter().map(|it| althing_text::pseudo_random(seed, *it as u64));
        draws.max().unwrap()
    };
    let best = |left: &[usize], key: &dyn Fn(usize) -> i64| -> Vec<usize> {
        let most = left.iter().map(|one| key(*one)).max().unwrap();
        left.iter().copied().filter(|one| key(*one) == most).collect()
    };
    let tied = best(among, &points);
    if let [one] = tied[..] {
        return (one, TieBreak::Newest);
    }
    let duels = |one: usize| {
        tied.iter().map(|other| prefer(one, *other).cmp(&prefer(*other, one)) as i64).sum::<i64>()
    };
    let unbeaten = best(&tied, &duels);
    if let [one] = unbeaten[..] {
        return (one, TieBreak::Pairwise);
    }
    let backed = best(&unbeaten, &from_others);
    if let [one] = backed[..] {
        return (one, TieBreak::FromOthers);
    }
    (backed.into_iter().max_by_key(|one| draw(*one)).unwrap(), TieBreak::Random)
}

#[test]
fn borda_is_the_naive_count_on_all_small_elections_with_ties_of_any_size() {
    let mut tied_triples = 0;
    let conclusions: [[Option<&str>; 4]; 4] = [
        [None; 4],
        [Some("4"), None, Some("4.0"), None],
        [Some("4"), Some("5"), Some("6"), Some("5")],
        [Some("4"), Some("4"), Some("4"), Some("5")],
    ];
    for (n, voters) in [(2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 2)] {
        for conclusions in conclusions {
            let conclusions = &conclusions[..n];
            let form = |one: usize| conclusions[one].map(|text| text.trim_end_matches(".0"));
            let alike = |one: usize, other: usize| form(one).is_some() && form(one) == form(other);
            let is_merged = !(1..n).all(|one| alike(0, one));
            let alike = |one: usize, other: usize| is_merged && alike(one, other);
            let is_first = |one: &usize| !(0..*one).any(|earlier| alike(earlier, *one));
            let group = |one: usize| (0..n).filter(|other| one == *other || alike(one, *other)).collect();
            let groups: Vec<Vec<usize>> = (0..n).filter(is_first).map(group).collect();
            let all: Vec<usize> = (0..groups.len()).collect();
            let singles: Vec<Vec<usize>> = (0..n).map(|one| vec![one]).collect();
            all_elections(n, voters, &mut |ballots| {
                let election = election(conclusions, ballots, 3);
                let counted = count(&election, BORDA);
                let points = naive_points(n, &alike, ballots);
                for (at, name) in NAMES[..n].iter().enumerate() {
                    let counted = counted.report.points[&AgentId::from(*name)];
                    assert_eq!(counted, points[at] as u32, "{ballots:?}");
                }
                let (group, between_groups) = naive_best(&groups, &all, ballots, 3);
                let (winner, within_group) = naive_best(&singles, &groups[group], ballots, 3);
                assert_eq!(counted.ranking[0], winner, "{conclusions:?} {ballots:?}: {counted:?}");
                let tie_break = [within_group, between_groups].into_iter().find(|it| *it != TieBreak::Newest);
                assert_eq!(counted.tie_break, tie_break, "{conclusions:?} {ballots:?}: {counted:?}");
                let best = groups.iter().map(|group| points[group[0]]).max();
                let tied = groups.iter().filter(|group| Some(points[group[0]]) == best).count();
                tied_triples += usize::from(tied > 2 && tie_break != Some(TieBreak::Random));
            });
        }
    }
    assert!(tied_triples > 100, "{tied_triples} ties of three or more are decided by comparing them");
}

/// The rule of 0.1.0: most votes, then votes from others, then the random order.
fn winner_of_0_1(n: usize, ballots: &[&[usize]], seed: u64) -> usize {
    let key = |one: usize| {
        let mine = || ballots.iter().enumerate().filter(move |(_, ballot)| ballot[0] == one);
        let from_others = mine().filter(|(voter, _)| *voter != one).count();
        (mine().count(), from_others, althing_text::pseudo_random(seed, one as u64))
    };
    (0..n).max_by_key(|one| key(*one)).unwrap()
}

#[test]
fn plurality_picks_the_winner_that_0_1_picked_on_all_small_elections() {
    for (n, voters) in [(2, 2), (3, 2), (3, 3)] {
        for seed in 0..4 {
            all_elections(n, voters, &mut |ballots| {
                let election = election(&vec![None; n], ballots, seed);
                let expected = winner_of_0_1(n, ballots, seed);
                assert_eq!(winner(&election, Rule::PLURALITY), expected, "{ballots:?}");
                let merged = Rule { merge_conclusions: true, unanimity: true, ..Rule::PLURALITY };
                assert_eq!(winner(&election, merged), expected, "without conclusions nothing is merged");
            });
        }
    }
    let nobody = election(&[None; 3], &[], 1);
    assert_eq!(winner(&nobody, Rule::PLURALITY), 2, "nobody voted: the newest answer");
}

#[test]
fn ballots_of_one_choice_give_the_same_winner_under_borda_and_plurality() {
    let borda = Rule { method: DecisionRule::Borda, ..Rule::PLURALITY };
    for seed in 0..8 {
        for chosen in 0..27 {
            let one: [usize; 3] = [chosen % 3, chosen / 3 % 3, chosen / 9];
            let ballots: Vec<&[usize]> = one.iter().map(std::slice::from_ref).collect();
            let election = election(&[None; 3], &ballots, seed);
            assert_eq!(winner(&election, borda), winner(&election, Rule::PLURALITY), "{ballots:?}");
        }
    }
}

#[test]
fn names_and_the_order_of_ballots_do_not_matter() {
    // The candidates keep their random numbers (by `member_index`); their places in all lists change.
    for conclusions in [[None; 3], [Some("x"), Some("y"), Some("x")]] {
        all_elections(3, 3, &mut |ballots| {
            let one = election(&conclusions, ballots, 9);
            let mut other = one.clone();
            other.candidates.rotate_left(1);
            other.ballots.reverse();
            for rule in [BORDA, Rule::PLURALITY] {
                let (left, right) = (count(&one, rule), count(&other, rule));
                assert_eq!(left.winner(&one), right.winner(&other), "{ballots:?}");
                assert_eq!(left.report.points, right.report.points);
                assert_eq!(left.tie_break, right.tie_break);
            }
        });
    }
}

/// All orders of `n` things.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    rankings(n).into_iter().filter(|ranking| ranking.len() == n).collect()
}

#[test]
fn agents_that_swap_names_swap_their_fates() {
    let permutations = permutations(3);
    for conclusions in [[None; 3], [Some("x"), Some("y"), Some("x")]] {
        // Each election is checked with one permutation of the names; the permutations take turns.
        let mut turns = permutations.iter().cycle();
        all_elections(3, 3, &mut |ballots| {
            let one = election(&conclusions, ballots, 9);
            for names in turns.by_ref().take(1) {
                let renamed = |agent: &AgentId| -> AgentId {
                    let at = NAMES.iter().position(|name| *name == agent.as_str()).unwrap();
                    NAMES[names[at]].into()
                };
                let mut other = one.clone();
                other.candidates.iter_mut().for_each(|it| it.agent = renamed(&it.agent));
                for ballot in &mut other.ballots {
                    (ballot.voter, ballot.target) = (renamed(&ballot.voter), renamed(&ballot.target));
                    ballot.ranking.iter_mut().for_each(|agent| *agent = renamed(agent));
                }
                for rule in [BORDA, Rule::PLURALITY] {
                    let (left, right) = (count(&one, rule), count(&other, rule));
                    assert_eq!(left.ranking, right.ranking, "{ballots:?} {names:?}");
                    let points: BTreeMap<AgentId, u32> =
                        left.report.points.iter().map(|(agent, points)| (renamed(agent), *points)).collect();
                    assert_eq!(points, right.report.points);
                    // If chance does not decide, the places in the config do not matter either.
                    for (candidate, index) in other.candidates.iter_mut().zip(names) {
                        candidate.member_index = *index;
                    }
                    let right = count(&other, rule);
                    assert_eq!(left.tie_break, right.tie_break, "{ballots:?} {names:?}");
                    if left.tie_break != Some(TieBreak::Random) {
                        assert_eq!(left.ranking[0], right.ranking[0], "{ballots:?} {names:?}");
                    }
                    for (index, candidate) in other.candidates.iter_mut().enumerate() {
                        candidate.member_index = index;
                    }
                }
            }
        });
    }
}

#[test]
fn a_winner_that_a_ballot_ranks_higher_still_wins() {
    let apart = [None; 3];
    let two_alike = [Some("x"), Some("y"), Some("x")];
    for (conclusions, seed) in [(apart, 1), (apart, 2), (two_alike, 1), (two_alike, 2)] {
        all_elections(3, 3, &mut |ballots| {
            for rule in [BORDA, Rule { merge_conclusions: true, ..Rule::PLURALITY }] {
                let before = election(&conclusions, ballots, seed);
                let first = winner(&before, rule);
                for (changed, ranking) in ballots.iter().enumerate() {
                    let at = ranking.iter().position(|it| *it == first).unwrap_or(ranking.len());
                    let Some(up) = at.checked_sub(1) else { continue };
                    let mut better: Vec<usize> = ranking.to_vec();
                    better.retain(|it| *it != first);
                    better.insert(up, first);
                    let mut ballots = ballots.to_vec();
                    ballots[changed] = &better;
                    assert_eq!(winner(&election(&conclusions, &ballots, seed), rule), first, "{ballots:?}");
                }
            }
        });
    }
}

#[test]
fn raising_an_answer_never_takes_points_from_its_conclusion_nor_gives_any_to_another() {
    let conclusions = [Some("x"), Some("y"), Some("x"), Some("z")];
    let points = |ballots: &[&[usize]]| count(&election(&conclusions, ballots, 1), BORDA).report.points;
    for ranking in rankings(4) {
        for at in 1..ranking.len() {
            let mut better = ranking.clone();
            better.swap(at - 1, at);
            let (before, after) = (points(&[&ranking]), points(&[&better]));
            for (candidate, name) in NAMES[..4].iter().enumerate() {
                let (before, after) = (before[&AgentId::from(*name)], after[&AgentId::from(*name)]);
                if conclusions[candidate] == conclusions[ranking[at]] {
                    assert!(after >= before, "{ranking:?}");
                } else {
                    assert!(after <= before, "{ranking:?}");
                }
            }
        }
    }
}

#[test]
fn ties_are_fair_over_seeds() {
    let cycle: [&[usize]; 3] = [&[0, 1, 2], &[1, 2, 0], &[2, 0, 1]];
    let agree = [Some("4"), Some("4"), Some("4")];
    let unanimity = Rule { unanimity: true, ..BORDA };
    for (conclusions, ballots, rule) in
        [([None; 3], &cycle[..], BORDA), ([None; 3], &cycle[..], Rule::PLURALITY), (agree, &[], unanimity)]
    {
        let mut wins: BTreeMap<usize, u32> = BTreeMap::new();
        for seed in 0..3000 {
            *wins.entry(winner(&election(&conclusions, ballots, seed), rule)).or_default() += 1;
        }
        // Three standard deviations of a fair draw are 77.
        assert!(
            wins.len() == 3 && wins.values().all(|wins| (900..1100).contains(wins)),
            "{rule:?}: {wins:?}"
        );
    }
}

#[test]
fn a_tie_is_broken_by_points_from_others_before_chance() {
    // All three have two points, and no one wins a comparison of two. From ballots of others, a has no point, b two, and
    // c one.
    let ballots: [&[usize]; 2] = [&[0, 2, 1], &[1, 2, 0]];
    let mut election = election(&[None; 3], &ballots, 1);
    election.ballots[1].voter = "c".into();
    for seed in 0..20 {
        election.seed = seed;
        let counted = count(&election, BORDA);
        assert_eq!((counted.ranking[0], counted.tie_break), (1, Some(TieBreak::FromOthers)), "{counted:?}");
    }
}

#[test]
fn a_ballot_counts_for_everyone_who_concludes_the_same() {
    // Three judges, three first choices, but two of these answers conclude the same.
    let ballots: [&[usize]; 3] = [&[0], &[1], &[2]];
    let conclusions = [Some("Paris"), Some("Lyon"), Some(" paris.")];
    for method in [DecisionRule::Borda, DecisionRule::Plurality] {
        let rule = Rule { method, ..BORDA };
        let counted = count(&election(&conclusions, &ballots, 5), rule);
        assert_ne!(counted.ranking[0], 1);
        assert_eq!(counted.report.points[&"a".into()], counted.report.points[&"c".into()]);
        assert!(counted.report.explanation.contains("a, c concluded the same"), "{counted:?}");
        let apart = count(&election(&conclusions, &ballots, 5), Rule { merge_conclusions: false, ..rule });
        assert_eq!(apart.tie_break, Some(TieBreak::Random), "without merging, nobody leads");
    }
}

#[test]
fn equal_conclusions_need_no_count_and_a_lone_or_silent_agent_prevents_that() {
    let rule = Rule { unanimity: true, ..BORDA };
    let decided = |conclusions: &[Option<&str>]| count(&election(conclusions, &[], 1), rule).report.rule;
    assert_eq!(decided(&[Some("1,000"), Some("1000.0")]), DecidedBy::Unanimous);
    assert_eq!(decided(&[Some("4"), Some("5")]), DecidedBy::Borda);
    assert_eq!(decided(&[Some("4"), None]), DecidedBy::Borda);
    assert_eq!(decided(&[None, None]), DecidedBy::Borda);
    assert_eq!(decided(&[Some("4"), Some(" ")]), DecidedBy::Borda);
    assert_eq!(decided(&[Some("4")]), DecidedBy::OnlyCandidate);
    let silent = Election { agents: 3, ..election(&[Some("4"), Some("4")], &[], 1) };
    assert_eq!(count(&silent, rule).report.rule, DecidedBy::Borda, "the third agent has no answer");
    let counted = count(&election(&[Some("Yes"), Some("yes")], &[&[0], &[0]], 1), rule);
    assert!(counted.votes.is_empty() && counted.report.points.is_empty() && counted.tie_break.is_none());
    assert!(
        counted
            .report
            .explanation
            .starts_with("all 2 agents concluded the same (\"Yes\"), so votes were not")
    );
}

#[test]
fn an_election_without_valid_votes_says_whether_anybody_voted() {
    let nobody = election(&[None; 2], &[], 1);
    assert!(count(&nobody, BORDA).report.explanation.starts_with("nobody voted; the newest answer, by "));
    let lapsed = Election { anybody_voted: true, ..nobody };
    let counted = count(&lapsed, BORDA);
    let expected = "no vote is valid, because newer answers came after the votes; the newest answer, by ";
    assert!(counted.report.explanation.starts_with(expected), "{}", counted.report.explanation);
    let rule = Rule { unanimity: true, ..BORDA };
    let agreed = Election { anybody_voted: true, ..election(&[Some("4"), Some("4")], &[], 1) };
    let explanation = count(&agreed, rule).report.explanation;
    assert!(explanation.contains("concluded the same (\"4\"), so votes were not counted"), "{explanation}");
}

#[test]
fn an_election_is_decided_only_if_no_further_ballots_can_change_its_winner() {
    let conclusions = [[None; 3], [Some("x"), Some("y"), Some("x")]];
    let rankings = rankings(3);
    for (conclusions, rule) in conclusions.into_iter().flat_map(|it| [(it, BORDA), (it, Rule::PLURALITY)]) {
        let mut decided = 0;
        all_elections(3, 2, &mut |ballots| {
            let before = election(&conclusions, ballots, 4);
            if !is_decided(&before, rule, 1) {
                return;
            }
            decided += 1;
            for last in &rankings {
                let after = [ballots, &[last.as_slice()]].concat();
                let after = election(&conclusions, &after, 4);
                assert_eq!(winner(&after, rule), winner(&before, rule), "{ballots:?} {last:?}");
            }
        });
        assert!(decided > 0, "{rule:?}");
    }
    assert!(!is_decided(&election(&[None; 3], &[], 1), BORDA, 0), "nobody has voted");
}

#[test]
fn the_explanation_names_rule_points_and_comparisons_in_one_line() {
    let ballots: [&[usize]; 3] = [&[0, 1, 2], &[1, 0, 2], &[0, 2, 1]];
    let counted = count(&election(&[None; 3], &ballots, 1), BORDA);
    assert_eq!(
        counted.report.explanation,
        "a wins by Borda count with 5 points (others: b 3, c 1); of 3 ballots, it is ranked above b by 2, c by 3"
    );
    assert_eq!(counted.votes, BTreeMap::from([("a".into(), 2), ("b".into(), 1)]));
    assert_eq!(counted.report.pairwise[&"b".into()], BTreeMap::from([("a".into(), 1), ("c".into(), 2)]));
    let counted = count(&election(&[None; 3], &ballots, 1), Rule::PLURALITY);
    assert_eq!(counted.report.explanation, "a wins by plurality with 2 of 3 votes (others: b 1, c 0)");
}

#[test]
fn choices_that_are_unknown_or_named_twice_are_ignored() {
    let mut strange = election(&[None; 3], &[&[1, 1, 0]], 1);
    strange.ballots[0].ranking.insert(0, "nobody".into());
    let counted = count(&strange, BORDA);
    assert_eq!(counted.report.points, BTreeMap::from([("a".into(), 1), ("b".into(), 2), ("c".into(), 0)]));
    strange.ballots[0].ranking = vec!["nobody".into()];
    assert_eq!(count(&strange, BORDA).tie_break, Some(TieBreak::Newest), "an empty ballot is no ballot");
}
