//! How a sandbox is started around a program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::bubblewrap;
use super::container::{self, Container};
use super::images::{self, Image, Images};
use super::isolation::{Isolation, Sandboxed};
use crate::RunnerError;
use crate::agent_environment::Variables;
use crate::order::Order;
use crate::program::Program;
use crate::sandbox::parts::FORWARD;
use crate::sandbox::terms::{
    INSIDE, Identity, Inside, Invocation, KEPT, PORT, SandboxKind, SandboxNetwork, SandboxOptions,
};

/// What starts sandboxes: found once, for all attempts.
#[derive(Debug)]
pub(crate) struct Wrapper {
    options: SandboxOptions,
    /// `bwrap`, `docker` or `podman`.
    program: PathBuf,
    /// This program, which is on both sides of a sandbox's wall.
    own_program: PathBuf,
    /// Who agents are.
    identity: Identity,
    /// What isolates them, unless an engine of containers does.
    isolation: Option<Isolation>,
    images: Images,
}

impl Wrapper {
    /// Finds what makes sandboxes, and tries it. `own_program` runs [`sandbox_part`](super::sandbox_part). Containers need an
    /// image, unless tasks `bring_images`.
    ///
    /// # Errors
    /// If there is no such program, or it makes no sandbox that holds.
    pub(crate) fn new(
        options: &SandboxOptions,
        own_program: &Path,
        bring_images: bool,
    ) -> Result<Option<Self>, RunnerError> {
        let program = match options.kind {
            SandboxKind::None => return Ok(None),
            SandboxKind::Bubblewrap => "bwrap",
            SandboxKind::Docker => "docker",
            SandboxKind::Podman => "podman",
        };
        if !cfg!(target_os = "linux") {
            return Err(RunnerError::SandboxSystem);
        }
        if options.has_own_programs() && options.image.is_none() && !bring_images {
            return Err(RunnerError::SandboxImage);
        }
        let program = Program::find(&[program.to_owned()], "sandbox", None)?.path;
        let isolation = match options.kind {
            SandboxKind::Bubblewrap => {
                Some(Isolation::try_out(program.clone(), own_program, options.bounds(), &options.arguments)?)
            }
            SandboxKind::None | SandboxKind::Docker | SandboxKind::Podman => None,
        };
        Ok(Some(Self {
            options: options.clone(),
            program,
            own_program: own_program.to_owned(),
            identity: Identity::of_this_process(),
            isolation,
            images: Images::default(),
        }))
    }

    /// Whom worlds must belong to while agents write to them, if not to the runner.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.identity.owner()
    }

    /// Whether calls go through the endpoint.
    pub(crate) fn has_endpoint(&self) -> bool {
        self.options.network == SandboxNetwork::Proxy
    }

    /// Where programs find their worlds, if that is said.
    pub(crate) fn world(&self) -> Option<&Path> {
        self.options.world.as_deref()
    }

    /// Where a program inside finds the server, if that is another place than outside.
    pub(crate) fn origin_inside(&self) -> Option<String> {
        self.has_endpoint().then(|| format!("http://127.0.0.1:{PORT}"))
    }

    /// What starts `program` in a sandbox. Of the runner's variables it keeps what the options say.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(crate) fn order(
        &self,
        program: &Path,
        arguments: &[String],
        variables: Variables,
        inside: Inside<'_>,
    ) -> Result<Sandboxed, String> {
        let mut words: Vec<OsString> = Vec::new();
        if self.has_endpoint() && self.isolation.is_none() {
            let own = Path::new(INSIDE).join("fulgurite");
            words.push(own.into());
            words.push(FORWARD.into());
            words.push(Path::new(INSIDE).join("proxy.sock").into());
            words.push(PORT.to_string().into());
        }
        words.push(program.into());
        words.extend(arguments.iter().map(OsString::from));
        // What is given last counts.
        let given: BTreeMap<String, String> =
            variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let kept = KEPT.iter().map(|name| (*name).to_owned()).chain(self.options.environment.clone());
        let kept: Vec<String> = kept.filter(|name| std::env::var_os(name).is_some()).collect();
        let names = given.keys().map(String::as_str).chain(kept.iter().map(String::as_str));
        let invocation = Invocation {
            options: &self.options,
            inside,
            readable: self.options.readable(inside.project),
            own_program: &self.own_program,
            variables: names.chain(["HOME"]).collect(),
            words,
        };
        let environment = self.environment(&given, &kept, inside.home);
        match &self.isolation {
            Some(isolation) => isolation.around(bubblewrap::arguments(&invocation, program, isolation)?, environment),
            None => {
                let arguments = container::arguments(&invocation, self.identity)?;
                Ok(Order { program: self.program.clone(), arguments, environment, directory: None }.into())
            }
        }
    }

    /// Fills a task's world with the files of the image that it runs in, and gives that image; nothing where there are no
    /// containers.
    ///
    /// # Errors
    /// Why there is no such image, or why its files are not to be had.
    pub(crate) async fn fill(&self, wanted: Option<&str>, world: &str, files: &Path) -> Result<Option<Image>, String> {
        match wanted {
            _ if !self.options.has_own_programs() => Ok(None),
            None if self.options.image.is_some() => Ok(None),
            None => Err("it has none, and [runner.sandbox] image names none for such tasks".to_owned()),
            Some(wanted) => {
                let image = self.images.image(&self.program, wanted).await?;
                images::copy_files(&self.program, &image, &container::name(world), files).await?;
                Ok(Some(image))
            }
        }
    }

    /// What ends the sandbox from outside, if it outlives the program that started it.
    pub(crate) fn removal(&self, name: &str) -> Option<Container> {
        let container = || Container { program: self.program.clone(), name: container::name(name) };
        self.options.has_own_programs().then(container)
    }

    /// What the sandbox's own program finds: a container's passes on what it is told to, and `bwrap` everything.
    fn environment(
        &self,
        given: &BTreeMap<String, String>,
        kept: &[String],
        home: &Path,
    ) -> Vec<(OsString, Option<OsString>)> {
        let mut environment: Vec<(OsString, Option<OsString>)> = Vec::new();
        if !self.options.has_own_programs() {
            let is_kept = |name: &OsString| kept.iter().any(|kept| name == kept.as_str());
            let others = std::env::vars_os().map(|(name, _)| name).filter(|name| !is_kept(name));
            environment.extend(others.map(|name| (name, None)));
            environment.push(("HOME".into(), Some(home.into())));
        }
        environment.extend(given.iter().map(|(name, value)| (name.into(), Some(value.into()))));
        environment
    }
}
