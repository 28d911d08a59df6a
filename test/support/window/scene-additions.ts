import type { ManagerView } from '../../../src/contract/deletion.ts'
import type { FakeAgent } from './fake-agent.ts'
import { withServices, withSettings } from './scene-agents.ts'
import { ready, tooLarge } from './scene-services.ts'

export const withWays = (answers: FakeAgent['answers']) => () => {
  const agent = withServices([tooLarge])()
  const { known } = withSettings()
  if (known.settings !== undefined) agent.known.settings = known.settings
  agent.answers.push(...answers)
  return agent
}

export const argo: ManagerView = {
  object: 'InferenceService',
  tool: 'Argo CD',
  evidence: 'label argocd.argoproj.io/instance: models',
}

export const withDeletion = (managers: ManagerView[]) => () => {
  const agent = withServices([ready])()
  const [comesBack] = managers.map(
    ({ tool, evidence }) => `${tool} keeps it (${evidence}) and will bring it back: delete it there. `,
  )
  const message =
    'The Model phi-4-mini-q4 goes with it, since no other service uses it; what was downloaded stays on this machine.'
  agent.known.deletion = {
    uid: 'ready',
    model: { name: 'phi-4-mini-q4', isDeleted: true, message },
    managers,
    message: `${comesBack ?? ''}The InferenceService default/phi-4-mini is deleted in the cluster, on whatever machine it is served. ${message}`,
  }
  return agent
}
