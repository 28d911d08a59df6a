import { messageOf } from '../util/message-of.ts'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Estimate } from '../memory/estimate/items.ts'
import { estimateLlamaServer, type LlamaServerInputs, type SideModel } from '../memory/estimate/llama-server.ts'
import {
  matchTensors,
  overridePatterns,
  serverArguments,
  type ServerArguments,
} from '../memory/estimate/server-arguments.ts'
import { estimateMlx, MlxFolderError, readMlxFolder } from '../memory/estimate/mlx.ts'
import type { Changeable } from '../memory/memory.ts'
import type { ServerChange } from '../memory/ways-to-fit.ts'
import type { Models } from '../models/models.ts'
import type { ServerFiles } from './model-request.ts'
import { parseShard, shardPaths } from '../models/selection.ts'
import type { InferenceServiceSpec, Model } from '../kube/resources.ts'
import { slotsOf } from '../runtimes/mlx-lm.ts'
import type { DaemonMemory } from '../servers/served-model.ts'

/** The estimate of what a server will hold. */
export interface Need {
  /** Identifies the server that was estimated: see `needKey`. */
  readonly of: string
  readonly estimate: Estimate | undefined
  /** Why there is none, one sentence. */
  readonly whyUnknown: string | undefined
  readonly changeable: Changeable
  /** What it may share with other services; absent for a process, which has its own memory. */
  readonly daemonMemory?: DaemonMemory
}

export interface SizingInputs {
  readonly of: string
  readonly models: Pick<Models, 'header'>
  readonly model: Pick<ServerFiles, 'path' | 'sizeBytes'>
  readonly status: Model['status']
  /** The whole command line, with a change of what a person could set. */
  readonly argv: (change: ServerChange) => readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly metal: boolean
}

/** Reads the header of the model and estimates from the very arguments that the server is started with. Never rejects. */
export async function sizeUp({ of, models, model, status, argv, env, metal }: SizingInputs): Promise<Need> {
  const { header, trouble } = await models.header(model.path).then(
    (header) => ({ header, trouble: undefined }),
    (error: unknown) => ({ header: undefined, trouble: messageOf(error) }),
  )
  const unknown = (whyUnknown: string): Need => ({ of, estimate: undefined, whyUnknown, changeable: {} })
  if (header === undefined && model.sizeBytes <= 0) return unknown(trouble)
  const { layerCount, embeddingSize } = status.gguf ?? {}
  const server = serverArguments(argv({}), env)
  const sideCount = namedFiles(server).length
  if (sideCount > maxSideFiles) {
    return unknown(`It names ${sideCount} files beside the model; at most ${maxSideFiles} can be counted. Name fewer.`)
  }
  const sides = await sideFiles(models, server)
  const matches = await matchTensors(
    overridePatterns(argv({}), env),
    (header?.tensors ?? []).map(({ name }) => name),
  ).catch((error: unknown) => {
    if (error instanceof RangeError) return error.message
    throw error
  })
  if (typeof matches === 'string') return unknown(matches)
  const estimateAt = (change: ServerChange): Estimate =>
    estimateLlamaServer({
      header,
      fileBytes: model.sizeBytes,
      argv: argv(change),
      env,
      matches,
      status: {
        ...(layerCount !== undefined && { layerCount }),
        ...(embeddingSize !== undefined && { embeddingSize }),
      },
      ...sides,
      host: { metal },
    })
  try {
    const estimate = estimateAt({})
    const { contextTokens, slots } = estimate
    return {
      of,
      estimate: estimate.guess !== undefined && trouble !== undefined ? withTrouble(estimate, trouble) : estimate,
      whyUnknown: undefined,
      changeable: {
        ...(header && contextTokens !== undefined && { contextTokens }),
        ...(header && slots !== undefined && { slots }),
        estimateAt: (change) => totalOf(() => estimateAt(change)),
      },
    }
  } catch (error) {
    if (error instanceof RangeError) return unknown(error.message)
    throw error
  }
}

/** The same for a model in the format of MLX: from the headers of its weights and its config.json. Never rejects. */
export async function sizeUpFolder({
  of,
  folder,
  spec,
  metal,
}: {
  readonly of: string
  readonly folder: string
  readonly spec: (change: ServerChange) => InferenceServiceSpec
  readonly metal: boolean
}): Promise<Need> {
  try {
    const model = await readMlxFolder(folder)
    const estimateAt = (change: ServerChange): Estimate => {
      const { contextSize, ...rest } = spec(change)
      const contextTokens = contextSize !== undefined && contextSize > 0 ? { contextTokens: contextSize } : {}
      return estimateMlx({ ...model, ...contextTokens, slots: slotsOf(rest), metal })
    }
    const estimate = estimateAt({})
    const { contextTokens, slots } = estimate
    return {
      ...{ of, estimate, whyUnknown: undefined },
      changeable: {
        ...(contextTokens !== undefined && { contextTokens }),
        ...(slots !== undefined && { slots }),
        estimateAt: (change) => totalOf(() => estimateAt(change)),
      },
    }
  } catch (error) {
    if (!(error instanceof MlxFolderError) && !(error instanceof RangeError)) throw error
    return { of, estimate: undefined, whyUnknown: error.message, changeable: {} }
  }
}

const withTrouble = (estimate: Estimate, trouble: string): Estimate => ({
  ...estimate,
  guess: `${estimate.guess ?? ''} ${trouble}`.trim(),
})

function totalOf(estimate: () => Estimate): number | undefined {
  try {
    return estimate().total
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/**
 * The files that arguments name beside the model. Without its header the size of a file has to do; a file that is not there ends
 * llama-server, which says so.
 */
async function sideFiles(
  models: Pick<Models, 'header'>,
  { mmproj, draft, adapters }: ServerArguments,
): Promise<Pick<LlamaServerInputs, 'mmproj' | 'draft' | 'adapterBytes' | 'unseen'>> {
  const unseen: string[] = []
  const sizeOf = async (file: string): Promise<number> => {
    const sizes = await Promise.all(filesOf(file).map((path) => stat(path).catch(() => undefined)))
    if (sizes[0] === undefined || sizes.includes(undefined)) unseen.push(basename(file))
    return sizes.reduce((sum, one) => sum + (one?.size ?? 0), 0)
  }
  const sideModel = async (file: string | undefined): Promise<SideModel | undefined> => {
    const fileBytes = file === undefined ? 0 : await sizeOf(file)
    if (file === undefined || fileBytes === 0) return undefined
    const header = await models.header(file).catch(() => undefined)
    return { fileBytes, ...(header && { header }) }
  }
  const [projector, drafter] = [await sideModel(mmproj), await sideModel(draft?.file)]
  const adapterSizes = await Promise.all(adapters.map(sizeOf))
  return {
    ...(projector && { mmproj: projector }),
    ...(drafter && { draft: drafter }),
    ...(adapters.length > 0 && { adapterBytes: adapterSizes.reduce((sum, bytes) => sum + bytes, 0) }),
    ...(unseen.length > 0 && { unseen }),
  }
}

/** All parts of a split model, of which an argument names the first. */
function filesOf(file: string): string[] {
  const shard = parseShard(file)
  return shard ? shardPaths(file, shard) : [file]
}

/** Nobody has so many; each may be the first of a thousand parts, and all are looked at before every start. */
const maxSideFiles = 64

/** As often as each is named, since llama-server loads it as often. */
const namedFiles = ({ mmproj, draft, adapters }: ServerArguments): string[] =>
  [mmproj, draft?.file, ...adapters].filter((file) => file !== undefined)

/** Tells side files that were exchanged from those that were sized: their sizes and times. */
export async function sideFileStamp(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const files = namedFiles(serverArguments(argv, env)).slice(0, maxSideFiles)
  const stamps = files.flatMap(filesOf).map(async (file) => {
    const there = await stat(file).catch(() => undefined)
    return there ? `${there.size}@${there.mtimeMs}` : '-'
  })
  return (await Promise.all(stamps)).join(' ')
}
