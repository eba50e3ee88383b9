mod agent_lightning;
mod learners_check;
mod packages;
mod tinker_exports;
mod tinker_models;
mod tinker_names;
mod tinker_server;
