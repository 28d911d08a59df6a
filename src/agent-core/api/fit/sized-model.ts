import type { Estimate } from '../../memory/estimate/items.ts'
import { estimateLlamaServer } from '../../memory/estimate/llama-server.ts'
import { estimateMlx } from '../../memory/estimate/mlx.ts'
import type { ServerChange } from '../../memory/ways-to-fit.ts'
import { llamaServerArgv } from '../../runtimes/llama-server.ts'
import type { LlamaServerDialect } from '../../runtimes/llama-server-binary.ts'
import type { SizedLook } from './sized-look.ts'

/** What an estimate needs to know of a model, wherever it is. */
export type FoundModel =
  | ({ readonly kind: 'gguf' } & Pick<SizedLook, 'header' | 'shards' | 'fileBytes' | 'mmproj'>)
  | { readonly kind: 'mlx'; readonly config: unknown; readonly tensorBytes: number }

/** How it would be served; absent = as a service has it that says nothing. */
export interface ServingWish {
  readonly contextTokens?: number | undefined
  readonly slots?: number | undefined
  /** Of the keys and the values. */
  readonly cacheTypes?: readonly [keys: string, values: string] | undefined
}

export interface ServingHost {
  readonly metal: boolean
  /** Absent = the classic one. */
  readonly dialect: LlamaServerDialect | undefined
}

/** The estimate with a change applied, as the agent would start the server. It throws RangeError where the header cannot be right. */
export function estimator(
  model: FoundModel,
  { contextTokens, slots, cacheTypes }: ServingWish,
  { metal, dialect }: ServingHost,
): (change: ServerChange) => Estimate {
  if (model.kind === 'mlx') {
    return (change) => {
      const tokens = change.contextTokens ?? contextTokens
      return estimateMlx({
        ...model,
        ...(tokens !== undefined && { contextTokens: tokens }),
        slots: change.slots ?? slots ?? 1,
      })
    }
  }
  const [keys, values] = cacheTypes ?? []
  return (change) =>
    estimateLlamaServer({
      ...model,
      argv: llamaServerArgv({
        spec: {
          contextSize: change.contextTokens ?? contextTokens,
          parallelSlots: change.slots ?? slots,
          cacheTypeK: change.kvType ?? keys,
          cacheTypeV: change.kvType ?? values,
        },
        modelPath: 'model.gguf',
        port: 0,
        ...(dialect !== undefined && { dialect }),
      }),
      host: { metal },
    })
}
