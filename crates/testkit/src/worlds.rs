//! Simulated worlds: how skilled the agents are, how well they judge, and by what they are misled. Benchmarks let them
//! answer and vote in runs of the decider, tests behind the fake model server.

#[derive(Clone, Copy, Debug)]
pub struct World {
    pub name: &'static str,
    pub about: &'static str,
    /// The probability that the first agent is right, and that each other agent is.
    pub skill: (f64, f64),
    pub spread: f64,
    /// How often a wrong agent makes the error that other wrong agents make too.
    pub shared_error: f64,
    /// How much better a right answer looks to a judge that was right itself. Other judges see 0.3 of this.
    pub discernment: f64,
    /// How much better a judge's own answer looks to it.
    pub self_preference: f64,
    /// How much better the first answer of the list looks than the last one.
    pub position_bias: f64,
    /// The share of judges that rank only their favorite.
    pub single_choice: f64,
}

const TYPICAL: World = World {
    name: "typical",
    about: "three of four answers right, mild self-preference, errors partly shared",
    skill: (0.75, 0.75),
    spread: 0.2,
    shared_error: 0.5,
    discernment: 1.5,
    self_preference: 0.8,
    position_bias: 0.4,
    single_choice: 0.0,
};

pub const WORLDS: [World; 10] = [
    TYPICAL,
    World { name: "easy", about: "nine of ten answers right", skill: (0.9, 0.9), ..TYPICAL },
    World { name: "hard", about: "two of five answers right", skill: (0.4, 0.4), ..TYPICAL },
    World {
        name: "self-preferring",
        about: "judges nearly always prefer their own answer",
        self_preference: 3.0,
        ..TYPICAL
    },
    World {
        name: "first is best",
        about: "judges prefer what they read first",
        position_bias: 2.0,
        ..TYPICAL
    },
    World {
        name: "last is best",
        about: "judges prefer what they read last",
        position_bias: -2.0,
        ..TYPICAL
    },
    World {
        name: "shared errors",
        about: "nine of ten wrong answers are the same",
        shared_error: 0.9,
        ..TYPICAL
    },
    World { name: "poor judges", about: "judges hardly notice what is right", discernment: 0.3, ..TYPICAL },
    World {
        name: "one expert",
        about: "one agent right in 95 %, the others in 50 %",
        skill: (0.95, 0.5),
        ..TYPICAL
    },
    World {
        name: "lazy judges",
        about: "half of the judges rank only their favorite",
        single_choice: 0.5,
        ..TYPICAL
    },
];

/// A pseudo-random number that follows from two others.
pub type Random = fn(u64, u64) -> u64;

/// All draws follow from the seed, so that the rules are compared on the same answers and the same opinions.
#[derive(Debug)]
pub struct Task {
    world: World,
    seed: u64,
    random: Random,
    /// What each agent concludes. 0 is right.
    conclusions: Vec<u64>,
}

impl Task {
    pub fn new(world: World, seed: u64, agents: usize, random: Random) -> Self {
        let mut task = Self { world, seed, random, conclusions: Vec::new() };
        let difficulty = world.spread * task.normal(&[1]);
        for agent in 0..agents {
            let skill = if agent == 0 { world.skill.0 } else { world.skill.1 };
            let is_right = task.uniform(&[2, agent as u64]) < (skill + difficulty).clamp(0.01, 0.99);
            let conclusion = if is_right {
                0
            } else if task.uniform(&[3, agent as u64]) < world.shared_error {
                1
            } else {
                2 + (task.uniform(&[4, agent as u64]) * 4.0) as u64
            };
            task.conclusions.push(conclusion);
        }
        task
    }

    /// What an agent concludes; 0 is right.
    pub fn conclusion(&self, agent: usize) -> u64 {
        self.conclusions[agent]
    }

    pub fn is_unanimous(&self) -> bool {
        self.conclusions.windows(2).all(|pair| pair[0] == pair[1])
    }

    pub fn is_right(&self, agent: usize) -> bool {
        self.conclusions[agent] == 0
    }

    pub fn some_agent_is_right(&self) -> bool {
        self.conclusions.contains(&0)
    }

    /// The names of the agents in the order in which a judge ranks them. The judge is misled by the order in which the
    /// answers stand in its prompt.
    pub fn ranking(&self, judge: usize, prompt: &str) -> Vec<String> {
        let shown = shown_agents(prompt);
        let last = (shown.len().max(2) - 1) as f64;
        let mut opinions: Vec<(f64, usize)> = shown
            .iter()
            .enumerate()
            .map(|(place, agent)| {
                let first = 1.0 - place as f64 / last;
                (self.opinion(judge, *agent) + self.world.position_bias * first, *agent)
            })
            .collect();
        opinions.sort_by(|one, other| other.0.total_cmp(&one.0));
        let ranks_all = self.uniform(&[5, judge as u64]) >= self.world.single_choice;
        let most = if ranks_all { opinions.len() } else { 1 };
        opinions.iter().take(most).map(|(_, agent)| format!("agent{}", agent + 1)).collect()
    }

    /// How good an answer looks to a judge, without the effect of its place in the list.
    fn opinion(&self, judge: usize, agent: usize) -> f64 {
        let world = &self.world;
        let (judge_key, agent_key) = (judge as u64, agent as u64);
        let sight = if self.is_right(judge) { world.discernment } else { 0.3 * world.discernment };
        let style = 0.5 * self.normal(&[6, agent_key]);
        let taste = self.normal(&[7, judge_key, agent_key]);
        let truth = if self.is_right(agent) { sight } else { 0.0 };
        let own = if agent == judge {
            world.self_preference
        } else if self.conclusions[agent] == self.conclusions[judge] {
            0.4 * world.self_preference
        } else {
            0.0
        };
        truth + style + taste + own
    }

    fn uniform(&self, key: &[u64]) -> f64 {
        let mix = |seed: u64, part: &u64| (self.random)(seed, *part);
        (key.iter().fold(self.seed, mix) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normally distributed number (Box and Muller's method).
    fn normal(&self, key: &[u64]) -> f64 {
        let first = self.uniform(&[key, &[100]].concat()).max(1e-12);
        let second = self.uniform(&[key, &[101]].concat());
        (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
    }
}

fn shown_agents(prompt: &str) -> Vec<usize> {
    let number = |line: &str| line.strip_prefix("<agent")?.split_once('.')?.0.parse::<usize>().ok();
    prompt.lines().filter_map(number).map(|number| number - 1).collect()
}
