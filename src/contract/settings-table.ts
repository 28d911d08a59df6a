import { agentRows } from './settings-table/agent-rows.ts'
import { clusterRows } from './settings-table/cluster-rows.ts'
import { memoryRows } from './settings-table/memory-rows.ts'
import { modelRows } from './settings-table/model-rows.ts'
import { powerRows } from './settings-table/power-rows.ts'
import { serverRows } from './settings-table/server-rows.ts'

/** Every setting that a person may change while the agent runs, by section. The others are in agent-core/settings. */
export const editableRows = {
  ...clusterRows,
  ...serverRows,
  ...modelRows,
  ...memoryRows,
  ...powerRows,
  ...agentRows,
} as const
