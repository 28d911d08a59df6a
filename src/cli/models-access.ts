import path from 'node:path'
import { z } from 'zod'
import { cancelPull, pruneModels, pullModel } from '../agent-core/api/model-commands.ts'
import { refused } from '../agent-core/api/command.ts'
import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { defaultDownloadSettings, Models } from '../agent-core/models/models.ts'
import { personsDownloads } from '../agent-core/settings/person-settings.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { acquireLock, startTimeOf } from '../agent-core/state/lock.ts'
import { StateFileError } from '../agent-core/state/state-file.ts'
import { openStateFolder } from '../agent-core/state/state-folder.ts'
import { LinkError } from '../contract/client.ts'
import { command, type Command, type CommandInput, type CommandResult } from '../contract/commands.ts'
import type { DownloadView, ModelStoreView } from '../contract/models.ts'
import type { ServiceView } from '../contract/service.ts'
import type { AgentClient } from '../serve/client/agent-client.ts'
import { connect, type AgentSessionOptions, type VerbContext } from './agent-session.ts'
import { exitCodes } from './io.ts'

/** The model store, through the agent that runs or without one. */
export interface ModelsAccess {
  view(): Promise<ModelStoreView>
  /** None without an agent. */
  services(): Promise<readonly ServiceView[]>
  command(input: CommandInput): Promise<CommandResult>
  /** Reports the progress of a pull, and resolves with its end. Throws LinkError. */
  untilEnded(model: string, onNews: (download: DownloadView) => void): Promise<DownloadView>
}

const commonOptions = z.object({
  json: z.boolean().default(false),
  stateDir: z.string(),
  modelStore: z.string().optional(),
})

/** Through the agent of the state folder; where none runs, on the store itself, with the folder's lock held so that none starts meanwhile. */
export async function withModels(
  { io, end }: VerbContext,
  options: unknown,
  work: (access: ModelsAccess, given: { json: boolean }) => Promise<number>,
): Promise<void> {
  const { json, stateDir, modelStore } = commonOptions.parse(options)
  const session = { io, stateDir: path.resolve(io.cwd, stateDir) }
  try {
    const agent = await connect(session).catch((error: unknown) => {
      if (error instanceof LinkError && error.code === 'gone') return undefined
      throw error
    })
    if (agent) {
      await using _ = agent
      end(await work(throughAgent(agent), { json }))
      return
    }
    const directory = modelStore === undefined ? undefined : path.resolve(io.cwd, modelStore)
    end(await withoutAgent(session, directory, (access) => work(access, { json })))
  } catch (error) {
    if (!(error instanceof LinkError || error instanceof StateFileError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    end(exitCodes.failed)
  }
}

const throughAgent = (agent: AgentClient): ModelsAccess => ({
  view: () => agent.query({ name: 'models' }),
  services: async () => (await agent.snapshot()).services,
  command: (input) => agent.command(input),
  untilEnded: (model, onNews) =>
    new Promise((resolve, reject) => {
      const leave = agent.follow({
        next: ({ downloads }) => {
          const download = downloads.find(({ name }) => name === model)
          if (!download) return
          if (!isOver(download)) {
            onNews(download)
            return
          }
          leave()
          resolve(download)
        },
        end: reject,
      })
    }),
})

async function withoutAgent(
  { io, stateDir }: AgentSessionOptions,
  directory: string | undefined,
  work: (access: ModelsAccess) => Promise<number>,
): Promise<number> {
  const platform = hostPlatform(io.platform)
  const folder = await openStateFolder(stateDir)
  const locked = folder.ok
    ? await acquireLock({
        file: folder.folder.lockFile,
        processStartTime: (pid) => startTimeOf(platform, pid),
      })
    : folder
  if (!locked.ok) {
    io.stderr.write(`metal-agent: ${locked.message}\n`)
    return exitCodes.failed
  }
  const downloads = await personsDownloads(path.join(stateDir, 'settings.json')).catch(async (error: unknown) => {
    await locked.lock.release()
    throw error
  })
  const settings = { ...defaultDownloadSettings, ...downloads }
  const listeners = new Set<() => void>()
  const models = new Models({
    directory: directory ?? defaultModelStore(io.platform, io.env, io.homeDir),
    homeFile: path.join(stateDir, 'model-store.json'),
    settings: () => settings,
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
    env: io.env,
    homeDir: io.homeDir,
    allowedDownloadHosts: 'any',
    onChange: () => {
      for (const listener of listeners) listener()
    },
  })
  try {
    return await work(alone(models, listeners))
  } finally {
    await models.stop()
    await locked.lock.release()
  }
}

const alone = (models: Models, listeners: Set<() => void>): ModelsAccess => ({
  view: () => models.view(),
  services: () => Promise.resolve([]),
  command: async (input) => outcomeOf(models, command.parse(input)),
  untilEnded: (model, onNews) =>
    new Promise((resolve) => {
      const look = (): void => {
        const download = models.state().downloads.find(({ name }) => name === model)
        if (!download) return
        if (!isOver(download)) {
          onNews(download)
          return
        }
        listeners.delete(look)
        resolve(download)
      }
      listeners.add(look)
      look()
    }),
})

function outcomeOf(models: Models, asked: Command): Promise<CommandResult> {
  switch (asked.name) {
    case 'pullModel':
      return pullModel({ models }, asked)
    case 'cancelPull':
      return cancelPull({ models }, asked)
    case 'pruneModels':
      return pruneModels({ models }, asked)
    default:
      return Promise.resolve(
        refused(
          'No agent is running, so it is not known which services use this model: start the agent, then delete it.',
        ),
      )
  }
}

const isOver = ({ state }: DownloadView): boolean => state === 'done' || state === 'failed' || state === 'cancelled'
