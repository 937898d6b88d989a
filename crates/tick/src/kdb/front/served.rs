//! What a front serves.

use crate::plan::Plan;
use crate::plant::Plant;
use crate::rdb::Rdb;
use std::sync::Arc;

/// The plant or RDB that clients of a front use.
#[derive(Debug, Clone)]
pub struct Served {
    plan: Plan,
    pub(super) publishes: bool,
    pub(super) plant: Option<Arc<Plant>>,
    pub(super) rdb: Option<Arc<Rdb>>,
}

impl Served {
    /// A plant: clients subscribe and send updates.
    pub fn plant(plant: Arc<Plant>) -> Self {
        Self { plan: plant.plan().clone(), publishes: true, plant: Some(plant), rdb: None }
    }

    /// A remote plant, published again here: clients subscribe.
    pub fn chained(plan: Plan) -> Self {
        Self { plan, publishes: true, plant: None, rdb: None }
    }

    /// An RDB: clients query.
    pub fn rdb(plan: Plan, rdb: Arc<Rdb>) -> Self {
        Self { plan, publishes: false, plant: None, rdb: Some(rdb) }
    }

    /// The same with an RDB beside the plant.
    pub fn with_rdb(self, rdb: Arc<Rdb>) -> Self {
        Self { rdb: Some(rdb), ..self }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }
}
