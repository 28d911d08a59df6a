import { z } from 'zod'

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  generation: z.number().optional(),
  deletionTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
})

export const condition = z.looseObject({
  type: z.string(),
  status: z.string(),
  reason: z.string(),
  message: z.string(),
  lastTransitionTime: z.string(),
  observedGeneration: z.number().optional(),
})
export type Condition = z.infer<typeof condition>

const status = z.looseObject({ conditions: z.array(condition).optional() })
export type Status = z.infer<typeof status>

export const inferenceService = z.looseObject({
  metadata,
  spec: z.looseObject({
    modelRef: z.string(),
    replicas: z.number().optional(),
    suspend: z.boolean().optional(),
    endpoint: z.looseObject({ port: z.number().optional(), path: z.string().optional() }).optional(),
  }),
  status: status.optional(),
})
export type InferenceService = z.infer<typeof inferenceService>

export const model = z.looseObject({
  metadata,
  spec: z.looseObject({
    source: z.string(),
    hardware: z.looseObject({ accelerator: z.string().optional() }).optional(),
  }),
  status: z
    .looseObject({
      phase: z.string().optional(),
      size: z.string().optional(),
      conditions: z.array(condition).optional(),
    })
    .optional(),
})
export type Model = z.infer<typeof model>

export const endpointSlice = z.looseObject({
  metadata,
  endpoints: z
    .array(
      z.looseObject({
        addresses: z.array(z.string()),
        conditions: z.looseObject({ ready: z.boolean().nullish() }).nullish(),
      }),
    )
    .nullish(),
})
export type EndpointSlice = z.infer<typeof endpointSlice>

export const isMetal = (of: Model): boolean => of.spec.hardware?.accelerator === 'metal'
