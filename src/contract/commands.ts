import { z } from 'zod'
import { ipAddress } from './addresses.ts'
import { modelApplication } from './model-application.ts'
import { contextSize, isLocalSource, namespaceName } from './names.ts'
import { editableRow, settingNames, settingsPatch } from './settings.ts'
import type { EditableRow } from './settings-table.ts'

/** Which InferenceService. */
export const serviceRef = z.object({
  namespace: namespaceName,
  name: z
    .string()
    .max(253)
    .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, 'must be the name of an InferenceService'),
})
export type ServiceRef = z.infer<typeof serviceRef>

const service = { service: serviceRef }

/** Which folder of the model store: that of the Model of this name, in whatever namespace. */
export const modelFolder = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, 'must be a name that Kubernetes allows for a Model')

/**
 * `cluster`: written to the InferenceService, so that every agent and every tool sees it. `here`: a hold that only this machine
 * keeps, for where the cluster does not take the change.
 */
export const stopScope = z.enum(['cluster', 'here'])

/** What a person says yes to: `production` = the context is called so, `unverified` = its cluster does not answer, or lacks LLMKube. */
export const contextDoubt = z.enum(['production', 'unverified'])
export type ContextDoubt = z.infer<typeof contextDoubt>

const acceptedDoubts = z.array(contextDoubt).max(contextDoubt.options.length)

/** Everything that may be asked of an agent; the agent's file of the same name carries it out. */
export const command = z.discriminatedUnion('name', [
  z.object({ name: z.literal('stop'), ...service, scope: stopScope.default('cluster') }),
  /** Undoes a stop, in the cluster or here. */
  z.object({ name: z.literal('start'), ...service }),
  z.object({ name: z.literal('restart'), ...service }),
  /** Leaves memory now, on this machine, until brought back; another machine may take it. */
  z.object({ name: z.literal('evict'), ...service }),
  z.object({ name: z.literal('bringBack'), ...service }),
  z.object({ name: z.literal('protect'), ...service, protect: z.boolean() }),
  z.object({ name: z.literal('cancelDownload'), ...service }),
  /** Ends a drain at once: requests in flight are cut short. */
  z.object({ name: z.literal('skipDrain'), ...service }),
  z.object({ name: z.literal('resync') }),
  /** Endpoints are withdrawn, models stay in memory. */
  z.object({ name: z.literal('pauseNode') }),
  z.object({ name: z.literal('resumeNode') }),
  /** After the machine ended in disorder while models ran: lifts the hold that this caused, and starts all at once. */
  z.object({
    name: z.literal('selectContext'),
    context: z.string().min(1).max(500),
    accept: acceptedDoubts.default([]),
  }),
  z.object({ name: z.literal('reloadKubeconfig') }),
  z.object({ name: z.literal('setHostAddress'), address: z.union([z.literal('automatic'), ipAddress]) }),
  z.object({
    name: z.literal('updateSettings'),
    settings: settingsPatch,
    /** Where a kubeconfig is among them, as in `selectContext`. */
    accept: acceptedDoubts.optional(),
  }),
  /** Fetches a model into the store before any service wants it. */
  z.object({
    name: z.literal('pullModel'),
    /** As in `spec.source` of a Model. */
    source: z.string().min(1).max(2_000),
    /** Absent = made of the source. */
    model: modelFolder.optional(),
    quantization: z.string().max(100).optional(),
    format: z.string().max(100).optional(),
  }),
  /** What has arrived is kept for a while. */
  z.object({ name: z.literal('cancelPull'), model: modelFolder }),
  /** Deletes a model's files; refused while a service uses them. */
  z.object({ name: z.literal('removeModel'), model: modelFolder }),
  /** Deletes what no service uses. */
  z.object({ name: z.literal('pruneModels'), dryRun: z.boolean().default(true) }),
  /** Makes a Model, or uses the one that is there, and an InferenceService for it. */
  z.object({ name: z.literal('applyModel'), application: modelApplication }),
  /** Deletes an InferenceService, and its Model where both were made by `applyModel` and no other service names it. */
  z.object({
    name: z.literal('deleteModel'),
    ...service,
    /** As the query `deletion` gave it: another service of this name is not deleted. */
    uid: z.string().min(1).max(100).optional(),
  }),
  /** In the cluster: whoever serves it starts it again with so many tokens; null gives it back to the default. */
  z.object({ name: z.literal('setContextSize'), ...service, contextSize: contextSize.nullable() }),
  z.object({ name: z.literal('shutdown'), keepServing: z.boolean().default(false) }),
])
export type Command = z.output<typeof command>
export type CommandInput = z.input<typeof command>
export type CommandName = Command['name']

/** A request that is repeated with the same id is carried out once, and answered the same. */
export const commandRequest = z.object({ requestId: z.uuid(), command })
export type CommandRequest = z.output<typeof commandRequest>

const message = z.string()

/** Every outcome is a sentence for a person. */
export const commandResult = z.discriminatedUnion('outcome', [
  z.object({ outcome: z.literal('done'), message }),
  /** It has begun; the snapshot tells the rest. */
  z.object({ outcome: z.literal('accepted'), message }),
  z.object({
    outcome: z.literal('refused'),
    by: z.enum(['agent', 'cluster']),
    message,
    /** What would have nearly the same effect and is possible. */
    instead: z.object({ command, label: z.string() }).optional(),
    /** Set if the cluster refused for want of rights: what somebody with the rights can apply instead. */
    yaml: z.string().optional(),
    /** The one of several settings that it was refused for. */
    setting: settingsPatch.keyof().optional(),
  }),
  /** It was tried and did not work. */
  z.object({ outcome: z.literal('failed'), message }),
])
export type CommandResult = z.infer<typeof commandResult>

/** Which carriers may send it, as with settings. */
export function trustOf(command: Command): EditableRow['trust'] {
  // Choosing the cluster decides which authors this machine works for, so it takes a shell, as the setting of the namespace does.
  if (command.name === 'selectContext') return 'shell'
  // It runs programs that install others.
  // The source of a Model may name files of this machine; a page has no business with its paths.
  if (command.name === 'applyModel') return isLocalSource(command.application.source) ? 'shell' : 'page'
  if (command.name !== 'updateSettings') return 'page'
  const { settings } = command
  return settingNames.some((name) => settings[name] !== undefined && editableRow(name).trust === 'shell')
    ? 'shell'
    : 'page'
}
