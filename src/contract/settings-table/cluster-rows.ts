import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'

const namespaceMessage = 'must be the name of a namespace, of at most 63 characters'

export const clusterRows = {
  namespace: {
    kind: 'text',
    schema: z.string({ error: namespaceMessage }).min(1, namespaceMessage).max(63, namespaceMessage),
    startsAs: 'default',
    defaultMeans: 'all',
    group: 'Cluster',
    flag: 'namespace',
    help: 'namespace whose InferenceServices are watched',
    counts: 'nextAgent',
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
