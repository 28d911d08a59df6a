import { expect, test } from 'vitest'
import { parseInferenceService, parseModel } from '../../../src/agent-core/kube/resources.ts'
import { clusterAgreement, disagreement } from '../../../src/agent-core/reconcile/plan/observation.ts'

const metadata = { name: 'tiny', namespace: 'ns', uid: 'u', resourceVersion: '1' }
const service = (phase: string, replicas = 1) =>
  parseInferenceService({ metadata, spec: { modelRef: 'tiny', replicas }, status: { phase } })
const model = (phase: string) => parseModel({ metadata, spec: { source: 's' }, status: { phase } })

test.each<[phase: string, replicas: number, modelPhase: string, kind: string, says: RegExp | undefined]>([
  ['Ready', 1, 'Ready', 'agrees', undefined],
  ['', 1, 'Ready', 'noController', /^No controller has written the status/],
  ['Progressing', 1, 'Ready', 'pending', /^The cluster still says Progressing\.$/],
  ['Progressing', 2, 'Ready', 'disagrees', /Set replicas to 1\.$/],
  ['Progressing', 1, 'Pending', 'disagrees', /does not call Model tiny ready \(Pending\)/],
])(
  'a published service that is %j with %i replicas and a Model that is %j: %s',
  (phase, replicas, modelPhase, kind, says) => {
    const agreement = clusterAgreement(service(phase, replicas), model(modelPhase))
    expect(agreement.kind).toBe(kind)
    if (says) expect('message' in agreement ? agreement.message : '').toMatch(says)
  },
)

test.each<[what: string, isPublished: boolean, phase: string, says: RegExp | undefined]>([
  ['what is published and Ready is no news', true, 'Ready', undefined],
  ['nor is what is withdrawn and not Ready', false, 'Progressing', undefined],
  ['a cluster without a controller disagrees with nothing', true, '', undefined],
  ['what is published and not Ready is', true, 'Progressing', /still says Progressing/],
  ['what is withdrawn and Ready is as well', false, 'Ready', /still says Ready, although nothing is published here/],
])('%s', (_what, isPublished, phase, says) => {
  const said = disagreement(isPublished, service(phase), model('Ready'))
  if (says) expect(said).toMatch(says)
  else expect(said).toBeUndefined()
})
