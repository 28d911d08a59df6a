import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'
import { absolutePath, nonEmpty } from '../setting-schemas.ts'

const namespaceMessage = 'must be the name of a namespace, of at most 63 characters'

export const clusterRows = {
  kubeconfig: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: '$KUBECONFIG, then the service account if in a Pod, then ~/.kube/config',
    group: 'Cluster',
    flag: 'kubeconfig',
    flagTakes: {
      what: 'a path is meant from the folder that the agent is started in',
      why: 'the Go agent takes any path',
      schema: nonEmpty,
    },
    help: 'kubeconfig file',
    counts: 'now',
    // It names programs to be run, and clusters to be served.
    trust: 'shell',
  },
  namespace: {
    kind: 'text',
    schema: z.string({ error: namespaceMessage }).min(1, namespaceMessage).max(63, namespaceMessage),
    startsAs: 'default',
    defaultMeans: 'all',
    group: 'Cluster',
    flag: 'namespace',
    help: 'namespace whose InferenceServices are watched',
    counts: 'now',
    trust: 'shell',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
