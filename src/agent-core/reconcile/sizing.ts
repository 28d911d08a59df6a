import { messageOf } from '../support/message-of.ts'
import { stat } from 'node:fs/promises'
import type { Estimate } from '../memory/estimate/items.ts'
import { estimateLlamaServer } from '../memory/estimate/llama-server.ts'
import type { Projector } from '../memory/estimate/mmproj.ts'
import { overridePatterns, serverArguments } from '../memory/estimate/server-arguments.ts'
import { matchTensors } from '../memory/estimate/tensor-patterns.ts'
import type { Changeable } from '../memory/memory.ts'
import type { ServerChange } from '../memory/ways-to-fit.ts'
import type { LocalModel, Models } from '../models/models.ts'
import type { Model } from '../kube/resources.ts'

/** The estimate of what a server will hold. */
export interface Need {
  /** Of which server: see `needKey`. */
  readonly of: string
  readonly estimate: Estimate | undefined
  /** Why there is none, one sentence. */
  readonly whyUnknown: string | undefined
  readonly changeable: Changeable
}

export interface SizingInputs {
  readonly of: string
  readonly models: Pick<Models, 'header'>
  readonly model: LocalModel
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
  const mmproj = await projectorOf(models, serverArguments(argv({}), env).mmproj)
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
      ...(mmproj && { mmproj }),
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

/** Without its header the size of its file has to do; without the file, llama-server will say so. */
async function projectorOf(models: Pick<Models, 'header'>, file: string | undefined): Promise<Projector | undefined> {
  if (file === undefined) return undefined
  const there = await stat(file).catch(() => undefined)
  if (!there) return undefined
  const header = await models.header(file).catch(() => undefined)
  return { fileBytes: there.size, ...(header && { header }) }
}
