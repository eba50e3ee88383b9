//! Keeps a warm agent's process: gives it attempts, hears its answers, replaces it when it dies or is deaf.

use super::failures::{CrashLoop, Lost};
use super::life::{LifeEvent, LifeId, Reins, prepare};
use super::lines::Line;
use super::messages::{AddressedAnswer, AgentLine, Answer, LONGEST_LINE, cancel_line, read_beginning, read_line};
use crate::launch::launcher::Launcher;
use crate::order::Order;
use crate::process::end::{ProcessError, ended_how};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long an agent may go on with an attempt that it was asked to stop.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How long an agent may take to leave once its standard input is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// So many processes in a row that end without a single answer, and the agent is given up.
const FRUITLESS_LIVES: u32 = 5;

/// How many answered attempts are remembered, to say what is wrong with a second answer.
const REMEMBERED: usize = 256;

/// How many of a process's lines are complained about.
const COMPLAINTS: u32 = 5;

/// What the keeper is asked for.
#[derive(Debug)]
pub(super) enum Request {
    /// To have an attempt done.
    Do(Job),
    /// To have one stopped; of one that is not under way this is no news.
    Cancel {
        /// The rollout.
        rollout_id: String,
        /// The attempt.
        attempt_id: String,
    },
    /// To tell the end of what the process wrote beside answers that works at an attempt.
    Log {
        /// The rollout.
        rollout_id: String,
        /// The attempt.
        attempt_id: String,
        /// Where it is awaited.
        reply: oneshot::Sender<String>,
    },
    /// To look whether a process still works at an attempt that it was asked to stop.
    CheckCancelled {
        /// The process.
        life: LifeId,
        /// The rollout.
        rollout_id: String,
        /// The attempt.
        attempt_id: String,
    },
    /// To end all processes.
    Close(oneshot::Sender<()>),
}

/// An attempt for the agent.
#[derive(Debug)]
pub(super) struct Job {
    /// The rollout.
    pub rollout_id: String,
    /// The attempt.
    pub attempt_id: String,
    /// The line that gives it to the agent.
    pub line: Vec<u8>,
    /// What it is opened with, which is in no message.
    pub key: Option<String>,
    /// Where the answer is awaited.
    pub reply: oneshot::Sender<Result<Answer, Lost>>,
}

/// The processes of one agent.
pub(super) struct Keeper {
    launcher: Launcher,
    order: Order,
    lives: BTreeMap<LifeId, Life>,
    next: LifeId,
    fruitless: u32,
    answered: VecDeque<String>,
    requests: mpsc::WeakUnboundedSender<Request>,
    events: mpsc::Sender<(LifeId, LifeEvent)>,
    given_up: watch::Sender<Option<CrashLoop>>,
    processes: JoinSet<()>,
}

/// A process, and what it works at.
struct Life {
    reins: Option<Reins>,
    log: super::life::AgentLog,
    held: HashMap<String, Held>,
    retired: bool,
    answered: bool,
    complaints: u32,
}

/// An attempt that a process was given and has not answered.
struct Held {
    attempt_id: String,
    key: Option<String>,
    /// `None` once it was asked to stop.
    reply: Option<oneshot::Sender<Result<Answer, Lost>>>,
}

impl Life {
    fn is_waited_for(&self) -> bool {
        self.held.values().any(|held| held.reply.is_some())
    }

    fn write(&self, line: Vec<u8>) {
        // A process that is gone is missed when its end is heard.
        let _ = self.reins.as_ref().map(|reins| reins.stdin.send(line));
    }

    fn kill(&mut self) {
        if let Some(reins) = self.reins.take() {
            // It may have ended in this moment.
            let _ = reins.kill.send(());
        }
    }

    /// Says that a line was passed over, as long as this is rare.
    fn complain(&mut self, what: &str) {
        self.complaints += 1;
        if self.complaints <= COMPLAINTS {
            tracing::warn!("the warm agent wrote {what}; the line is passed over");
        }
    }

    /// The end of what it wrote beside answers, without the keys of what it holds.
    fn last_words(&self) -> String {
        let keys = self.held.values().filter_map(|held| held.key.as_deref());
        keys.fold(self.log.text(), |text, key| text.replace(key, "[key]"))
    }
}

impl Keeper {
    /// A keeper of no process yet, the source of their events, and its work, which ends when nobody can ask it any more.
    pub(super) async fn keep(
        launcher: Launcher,
        order: Order,
        requests: mpsc::WeakUnboundedSender<Request>,
        mut received: mpsc::UnboundedReceiver<Request>,
        given_up: watch::Sender<Option<CrashLoop>>,
    ) {
        // Few, so that an agent that writes without end waits instead of filling the memory.
        let (events, mut heard) = mpsc::channel(2);
        let mut keeper = Self {
            launcher,
            order,
            lives: BTreeMap::new(),
            next: 0,
            fruitless: 0,
            answered: VecDeque::new(),
            requests,
            events,
            given_up,
            processes: JoinSet::new(),
        };
        loop {
            tokio::select! {
                request = received.recv() => match request {
                    Some(Request::Close(closed)) => {
                        keeper.close(&mut heard).await;
                        // Whoever asked may have stopped waiting.
                        let _ = closed.send(());
                    }
                    Some(request) => keeper.carry_out(request),
                    None => return,
                },
                Some((life, event)) = heard.recv() => keeper.hear(life, event),
            }
        }
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::Do(job) => self.give(job),
            Request::Cancel { rollout_id, attempt_id } => self.cancel(rollout_id, attempt_id),
            Request::CheckCancelled { life, rollout_id, attempt_id } => {
                self.check_cancelled(life, &rollout_id, &attempt_id);
            }
            Request::Log { rollout_id, attempt_id, reply } => {
                let log = self.holder_of(&rollout_id, &attempt_id).map(|(_, life)| life.last_words());
                // The attempt may have ended elsewhere in this moment.
                let _ = reply.send(log.unwrap_or_default());
            }
            Request::Close(_) => {}
        }
    }

    /// Gives the job to the newest process, or to a new one.
    fn give(&mut self, job: Job) {
        let id = self.ready_for(&job).unwrap_or_else(|| self.start());
        if let Some(life) = self.lives.get_mut(&id) {
            life.write(job.line);
            let held = Held { attempt_id: job.attempt_id, key: job.key, reply: Some(job.reply) };
            life.held.insert(job.rollout_id, held);
        }
    }

    /// The process that takes new jobs, unless it still works at an earlier attempt at the same rollout: its answer could then
    /// be taken for the new one's.
    fn ready_for(&mut self, job: &Job) -> Option<LifeId> {
        let (id, life) = self.lives.iter_mut().next_back().filter(|(_, life)| !life.retired)?;
        if life.held.contains_key(&job.rollout_id) {
            life.retired = true;
            return None;
        }
        life.reins.is_some().then_some(*id)
    }

    fn start(&mut self) -> LifeId {
        let id = self.next;
        let (reins, living) = prepare(id, self.launcher.clone(), self.order.clone(), self.events.clone());
        self.next += 1;
        while self.processes.try_join_next().is_some() {}
        self.processes.spawn(living);
        let log = reins.log.clone();
        self.lives.insert(
            id,
            Life { reins: Some(reins), log, held: HashMap::new(), retired: false, answered: false, complaints: 0 },
        );
        id
    }

    /// The process that works at an attempt.
    fn holder_of(&mut self, rollout_id: &str, attempt_id: &str) -> Option<(LifeId, &mut Life)> {
        let holds = |life: &Life| life.held.get(rollout_id).is_some_and(|held| held.attempt_id == attempt_id);
        self.lives.iter_mut().find(|(_, life)| holds(life)).map(|(id, life)| (*id, life))
    }

    fn cancel(&mut self, rollout_id: String, attempt_id: String) {
        let Some((id, life)) = self.holder_of(&rollout_id, &attempt_id) else { return };
        if let Some(held) = life.held.get_mut(&rollout_id) {
            held.reply = None;
        }
        life.write(cancel_line(&rollout_id, &attempt_id));
        if life.retired && !life.is_waited_for() {
            life.kill();
        }
        let Some(requests) = self.requests.upgrade() else { return };
        let check = Request::CheckCancelled { life: id, rollout_id, attempt_id };
        #[expect(clippy::disallowed_methods, reason = "it ends after its pause")]
        tokio::spawn(async move {
            sleep(CANCEL_GRACE).await;
            // A keeper that is gone has nothing to check.
            let _ = requests.send(check);
        });
    }

    /// Takes no more jobs to a process that has not stopped in time, and kills it once nothing else is waited for from it.
    fn check_cancelled(&mut self, id: LifeId, rollout_id: &str, attempt_id: &str) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        if life.held.get(rollout_id).is_none_or(|held| held.attempt_id != attempt_id) {
            return;
        }
        if !life.retired {
            let grace = CANCEL_GRACE;
            tracing::warn!(
                rollout_id,
                attempt_id,
                "the warm agent still works at an attempt {grace:?} after it was asked to stop; it gets no new ones, and \
                 another process is started"
            );
        }
        life.retired = true;
        if !life.is_waited_for() {
            life.kill();
        }
    }

    fn hear(&mut self, id: LifeId, event: LifeEvent) {
        match event {
            LifeEvent::Line(Line::Whole(line)) => match read_line(&line) {
                AgentLine::Log => self.log(id, &line),
                line => self.settle(id, line),
            },
            LifeEvent::Line(Line::TooLong { beginning, length }) => {
                let reason = format!("is {length} bytes long: {LONGEST_LINE} are the most");
                match read_beginning(&beginning, &reason) {
                    AgentLine::Log => self.complain(id, &format!("a line of {length} bytes")),
                    line => self.settle(id, line),
                }
            }
            LifeEvent::Ended(status) => self.bury(id, status),
        }
    }

    fn complain(&mut self, id: LifeId, what: &str) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.complain(what);
        }
    }

    fn log(&self, id: LifeId, line: &[u8]) {
        // What agents print may be prompts and keys.
        tracing::trace!(line = %String::from_utf8_lossy(line), "the warm agent's log");
        if let Some(life) = self.lives.get(&id) {
            life.log.push(line);
            life.log.push(b"\n");
        }
    }

    /// Takes an answer to the attempt that it is for, if this process was given that.
    fn settle(&mut self, id: LifeId, line: AgentLine) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let answer = match line {
            AgentLine::Answer(answer) => answer,
            AgentLine::Unreadable { beginning, reason } => match named_in(&beginning, life) {
                Some(rollout_id) => {
                    let answer = Answer::Failed(format!("its answer {reason}"));
                    AddressedAnswer { rollout_id, attempt_id: None, answer }
                }
                None => return life.complain(&format!("an answer for nothing that it holds, which {reason}")),
            },
            AgentLine::Log => return,
        };
        let AddressedAnswer { rollout_id, attempt_id, answer } = answer;
        let Some(held) = life.held.get(&rollout_id) else {
            let twice = self.answered.contains(&rollout_id);
            let what =
                if twice { "a second answer for an attempt" } else { "an answer for a rollout that it does not hold" };
            return life.complain(what);
        };
        if attempt_id.is_some_and(|named| named != held.attempt_id) {
            return life.complain("an answer for another attempt than it holds at that rollout");
        }
        if let Some(reply) = life.held.remove(&rollout_id).and_then(|held| held.reply) {
            // The attempt may have ended elsewhere in this moment.
            let _ = reply.send(Ok(answer));
        }
        life.answered = true;
        self.fruitless = 0;
        if life.retired && !life.is_waited_for() {
            life.kill();
        }
        self.answered.truncate(REMEMBERED - 1);
        self.answered.push_front(rollout_id);
    }

    /// Tells all who wait for a process that it is gone.
    fn bury(&mut self, id: LifeId, status: Result<ExitStatus, ProcessError>) {
        let Some(life) = self.lives.remove(&id) else { return };
        let (how, when) = match status {
            Ok(status) => (ended_how(status), " before it had answered"),
            Err(error) => (error.to_string(), ""),
        };
        let log = life.last_words();
        let was_killed = life.reins.is_none();
        tracing::debug!(how, held = life.held.len(), "a process of the warm agent ended");
        for reply in life.held.into_values().filter_map(|held| held.reply) {
            let lost = Lost { reason: format!("{how}{when}"), log: log.clone() };
            // The attempt may have ended elsewhere in this moment.
            let _ = reply.send(Err(lost));
        }
        if !life.answered && !was_killed {
            self.count_fruitless(&how, &log);
        }
    }

    fn count_fruitless(&mut self, how: &str, log: &str) {
        self.fruitless += 1;
        if self.fruitless >= FRUITLESS_LIVES {
            let last_words = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it wrote nothing");
            let last_words = last_words.chars().take(300).collect();
            let crash_loop = CrashLoop { processes: self.fruitless, how: how.to_owned(), last_words };
            self.given_up.send_replace(Some(crash_loop));
        }
    }

    /// Closes the standard input of all processes, and kills those that do not leave.
    async fn close(&mut self, heard: &mut mpsc::Receiver<(LifeId, LifeEvent)>) {
        for life in self.lives.values_mut() {
            life.held.clear();
            if let Some(Reins { stdin, kill, .. }) = life.reins.take() {
                drop(stdin);
                // Dropped without a word it kills nothing; the process is killed with `processes` if it stays.
                drop(kill);
            }
        }
        let all_end = async {
            while !self.lives.is_empty()
                && let Some((id, event)) = heard.recv().await
            {
                if matches!(event, LifeEvent::Ended(_)) {
                    self.lives.remove(&id);
                }
            }
        };
        if timeout(CLOSE_GRACE, all_end).await.is_err() {
            tracing::debug!("the warm agent did not leave when its standard input was closed; it is killed");
        }
        self.processes.shutdown().await;
        self.lives.clear();
    }
}

/// The one attempt of this process whose rollout is named in what begins a line, if there is just one.
fn named_in(beginning: &str, life: &Life) -> Option<String> {
    let mut named = life.held.keys().filter(|rollout_id| beginning.contains(rollout_id.as_str()));
    named.next().filter(|_| named.next().is_none()).cloned()
}
