import { sentence } from '../../contract/clean-text.ts'
import type { ManagerView } from '../../contract/model-application.ts'
import type { ObjectMeta } from '../kube/resources.ts'

interface Sign {
  readonly tool: string
  readonly labels?: readonly string[]
  readonly annotations?: readonly string[]
  /** Of `app.kubernetes.io/managed-by`. */
  readonly managedBy?: RegExp
}

/** How tools that keep objects as a repository has them mark those objects. */
const signs: readonly Sign[] = [
  { tool: 'Argo CD', labels: ['argocd.argoproj.io/instance'], annotations: ['argocd.argoproj.io/tracking-id'] },
  {
    tool: 'Flux',
    labels: ['kustomize.toolkit.fluxcd.io/name', 'helm.toolkit.fluxcd.io/name'],
    managedBy: /^flux/i,
  },
  { tool: 'Helm', annotations: ['meta.helm.sh/release-name'], managedBy: /^(?:helm|tiller)$/i },
  {
    tool: 'kustomize',
    annotations: ['config.kubernetes.io/origin', 'kustomize.config.k8s.io/id'],
    managedBy: /^kustomize/i,
  },
  { tool: 'kapp', labels: ['kapp.k14s.io/app'] },
  { tool: 'Rancher Fleet', annotations: ['objectset.rio.cattle.io/id'], labels: ['objectset.rio.cattle.io/hash'] },
  { tool: 'Config Sync', annotations: ['configmanagement.gke.io/managed', 'configsync.gke.io/resource-id'] },
  { tool: 'Crossplane', annotations: ['crossplane.io/composition-resource-name'] },
]

const managedByLabel = 'app.kubernetes.io/managed-by'
/** Of what others wrote, in a sentence. */
const maxEvidenceBytes = 200

/** The tools that would bring the object back or change it again, by their labels and annotations, which may also be copies. */
export function managersOf(
  object: ManagerView['object'],
  { labels, annotations, ownerReferences }: Pick<ObjectMeta, 'labels' | 'annotations' | 'ownerReferences'>,
): ManagerView[] {
  const by = labels[managedByLabel]
  const byTools = signs.flatMap(({ tool, labels: ofLabels = [], annotations: ofAnnotations = [], managedBy }) => {
    const [evidence] = [
      ...ofLabels.filter((name) => labels[name] !== undefined).map((name) => marked('label', name, labels)),
      ...ofAnnotations
        .filter((name) => annotations[name] !== undefined)
        .map((name) => marked('annotation', name, annotations)),
      ...(by !== undefined && managedBy?.test(by) === true ? [marked('label', managedByLabel, labels)] : []),
    ]
    return evidence === undefined ? [] : [{ object, tool, evidence }]
  })
  const owners = ownerReferences
    .filter(({ controller }) => controller === true)
    .map(({ kind, name }) => ({ object, tool: said(`${kind} ${name}`), evidence: 'its owner' }))
  return [...byTools, ...owners]
}

const marked = (what: string, name: string, values: Readonly<Record<string, string>>): string =>
  said(`${what} ${name}: ${values[name] ?? ''}`)

const said = (text: string): string => sentence(text, maxEvidenceBytes)
