import { editableRow, type SettingView, type StartSettingName, type StartSettingView } from '../contract/settings.ts'
import type { SettingRow } from '../contract/settings-table.ts'

/** As a person reads them, one after the other. */
export const settingSections = ['cluster', 'network', 'memory', 'runtimes', 'models', 'power', 'general'] as const
export type SettingSection = (typeof settingSections)[number]

const ofGroup: Readonly<Record<SettingRow['group'], SettingSection>> = {
  Cluster: 'cluster',
  Models: 'models',
  'llama-server': 'runtimes',
  Memory: 'memory',
  Publishing: 'network',
  Power: 'power',
  Agent: 'general',
}

/** Where the agent and its servers listen is a matter of the network, whatever group their flags stand in. */
const elsewhere: Readonly<Partial<Record<StartSettingName, SettingSection>>> = {
  port: 'network',
  uiPort: 'network',
  metricsAddress: 'network',
  metricsTokenFile: 'network',
  llamaServerPort: 'network',
  portRange: 'network',
  runtime: 'runtimes',
}

export const sectionOf = ({ name }: SettingView): SettingSection => ofGroup[editableRow(name).group]

export const sectionOfStart = ({ name, group }: StartSettingView): SettingSection => elsewhere[name] ?? ofGroup[group]
