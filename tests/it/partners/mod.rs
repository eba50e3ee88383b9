mod agent_lightning;
mod tinker_models;
mod tinker_server;
