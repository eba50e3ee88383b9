mod daemon;
mod harvest;
mod objectives;
mod resumption;
mod run;
mod training;
