import type { CommandInput, CommandResult } from '../../../contract/commands.ts'
import { command } from '../../../contract/commands.ts'
import { rootMessage, type ApiError } from '../../kube/api-error.ts'

export type Outcome = Promise<CommandResult>

export const done = (message: string): CommandResult => ({ outcome: 'done', message })

export const accepted = (message: string): CommandResult => ({ outcome: 'accepted', message })

export const failed = (message: string): CommandResult => ({ outcome: 'failed', message })

export interface Instead {
  readonly command: CommandInput
  readonly label: string
}

export const refused = (message: string, instead?: Instead): CommandResult => refusal('agent', message, instead)

/** In the cluster's own words. */
export const refusedByCluster = (what: string, error: ApiError, instead?: Instead): CommandResult =>
  refusal('cluster', clusterWords(what, error), instead)

/** With the YAML that a person with more rights can apply instead. */
export const refusedWithYaml = (message: string, yaml: string): CommandResult => ({
  outcome: 'refused',
  by: 'cluster',
  message,
  yaml,
})

export const clusterWords = (what: string, error: ApiError): string =>
  error.code === undefined
    ? `${what}: the cluster does not answer (${rootMessage(error)}).`
    : `${what}: the cluster refused it (${error.detail}).`

const refusal = (by: 'agent' | 'cluster', message: string, instead?: Instead): CommandResult => ({
  outcome: 'refused',
  by,
  message,
  ...(instead && { instead: { label: instead.label, command: command.parse(instead.command) } }),
})
