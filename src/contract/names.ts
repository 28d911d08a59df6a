import { z } from 'zod'

/** Names that Kubernetes allows (DNS-1123); what else an API server may call an object is not to reach a path, a shell or a terminal. */
export const dnsLabel = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/
export const dnsSubdomain = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/
export const maxLabelLength = 63
export const maxSubdomainLength = 253

export const namespaceName = z.string().max(maxLabelLength).regex(dnsLabel, 'must be the name of a namespace')

/** Name of a new Model and InferenceService: the Service that pods call gets the same name, which must begin with a letter. */
export const newServiceName = z
  .string()
  .max(maxLabelLength, 'must be at most 63 characters')
  .regex(
    /^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
    'must be small letters, digits, dots and dashes, and begin with a letter',
  )

/** As in `spec.source` of a Model; what would hide or turn round text that people read is in no address. */
export const modelSource = z
  .string()
  .min(1, 'must not be empty')
  .max(2_048, 'must be at most 2,048 characters')
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must not contain control or invisible characters')

/** As in `spec.sourceSecretRef` of a Model. */
export const secretName = z
  .string()
  .max(maxSubdomainLength, 'must be at most 253 characters')
  .regex(dnsSubdomain, 'must be the name of a Secret: small letters, digits, dots and dashes')

/** Whether the source is a path on this machine, the only kind that makes an agent read local files. */
export const isLocalSource = (source: string): boolean => /^\s*(?:\/|~|\.|file:)/i.test(source)

export const quantizationName = z
  .string()
  .max(100)
  .regex(/^[A-Za-z0-9][\w.-]*$/, 'must be a quantization such as Q4_K_M')

/** As LLMKube's schema bounds it. */
export const mostTokens = 2_097_152
export const contextSize = z.int().min(128, 'must be at least 128 tokens').max(mostTokens, 'must be at most 2,097,152')

export const mostSlots = 64
export const parallelSlots = z.int().min(1).max(mostSlots)

export const cacheTypes = ['f16', 'f32', 'q8_0', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'iq4_nl'] as const
export const cacheType = z.enum(cacheTypes)
