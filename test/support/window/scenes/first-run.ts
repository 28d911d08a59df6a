import { deniedSentence } from '../../../../src/agent-core/platform/local-network.ts'
import type { ClusterView } from '../../../../src/contract/cluster.ts'
import type { Answer } from '../../../../src/contract/queries.ts'
import { sampleSnapshot } from '../../sample-snapshot.ts'
import { FakeAgent } from '../fake-agent.ts'
import { memoryWith } from '../scene-gauges.ts'
import { gigabyte } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

const { cluster, host } = sampleSnapshot()

const contexts: Answer<'contexts'> = {
  kubeconfig: '/Users/me/.kube/config',
  contexts: ['homelab', 'minikube', 'prod-eu'].map((name) => ({
    name,
    server: `https://${name}.lan:6443`,
    inUse: false,
    isDefault: false,
  })),
}

interface FirstRun {
  readonly cluster?: Partial<ClusterView>
  readonly lacks?: 'kubeconfig' | 'runtimeAndAddress'
}

/** A machine on which no service has been yet. */
const onFirstRun =
  ({ cluster: changed, lacks }: FirstRun = {}) =>
  (): FakeAgent => {
    const { address: _address, ...addressless } = host
    const message = 'No address of this machine was chosen: two networks reach the cluster.'
    const agent = new FakeAgent(
      sampleSnapshot({
        ...{ services: [], ...memoryWith([]) },
        cluster: { ...cluster, ...changed },
        host: lacks === 'runtimeAndAddress' ? { ...addressless, message } : host,
      }),
    )
    agent.known.runtimes = {
      runtimes: [
        lacks === 'runtimeAndAddress'
          ? {
              name: 'llama-server',
              formats: ['gguf'],
              message:
                'llama-server is not installed here: install it with "brew install llama.cpp", or give its path with --llama-server.',
            }
          : {
              name: 'llama-server',
              formats: ['gguf'],
              path: '/opt/homebrew/bin/llama-server',
              version: '6500 (0e6fdc9a)',
            },
      ],
    }
    agent.known.models = {
      directory: '/Users/me/Library/Application Support/Metalbar/models',
      freeBytes: 412 * gigabyte,
      reserveBytes: 2 * gigabyte,
      models: [],
    }
    agent.known.hostAddresses = {
      automatic: true,
      message,
      addresses: [
        { address: '192.168.1.20', interface: 'en0', inUse: lacks === undefined },
        { address: '100.64.0.10', interface: 'utun4', inUse: false },
        { address: '169.254.7.7', interface: 'en5', inUse: false, unfit: 'It is link-local.' },
      ],
    }
    if (lacks !== 'kubeconfig') agent.known.contexts = contexts
    return agent
  }

const away = { server: '', context: '', state: 'offline', retryAt: '2026-01-02T03:04:10.000Z' } as const

const denied = onFirstRun({
  cluster: {
    state: 'denied',
    message:
      'The cluster refuses inferenceservices: user "me" cannot list resource "inferenceservices" at the cluster scope.',
  },
})

export const firstRunScenes = {
  empty: {
    says: [
      'What was found',
      'lab · https://10.0.0.1:6443',
      '192.168.1.20 · en0',
      'version 6500 (0e6fdc9a)',
      '412 GB free',
      'No service for this machine yet',
      'Add a model…',
      'Make a small one in a terminal',
    ],
    agent: onFirstRun(),
  },
  'empty-unfolded': {
    says: ['kubectl --context lab --namespace default apply -f -', 'Copy command'],
    agent: onFirstRun(),
    unfold: ['Make a small one in a terminal'],
    height: 980,
  },
  'no-kubeconfig': {
    says: ['no context to use', 'There is no kubeconfig at', 'Read the kubeconfig again'],
    agent: onFirstRun({
      cluster: {
        ...away,
        message:
          'There is no kubeconfig at /Users/me/.kube/config; copy one from your cluster there, or name one with --kubeconfig.',
      },
      lacks: 'kubeconfig',
    }),
    height: 760,
  },
  'choose-context': {
    says: ['Choose a context of the kubeconfig:', 'Use minikube', 'Use prod-eu', 'Services are not known'],
    agent: onFirstRun({
      cluster: {
        ...away,
        message: 'The kubeconfig names no current context; choose one of homelab, minikube, prod-eu with --context.',
      },
    }),
    height: 760,
  },
  'choose-production': {
    says: ['prod-eu (https://prod-eu.lan:6443) looks like production by its name', 'Yes, serve it', 'Stay'],
    agent: onFirstRun({
      cluster: {
        ...away,
        message: 'The kubeconfig names no current context; choose one of homelab, minikube, prod-eu with --context.',
      },
    }),
    press: ['Use prod-eu'],
    height: 760,
  },
  'no-answer': {
    says: ['lab · does not answer', 'connection refused', 'Try now'],
    agent: onFirstRun({
      cluster: {
        state: 'offline',
        message: 'The API server at https://10.0.0.1:6443 does not answer: connection refused.',
      },
    }),
    height: 760,
  },
  'no-permission': {
    says: [
      'lab · macOS keeps Metalbar from the local network',
      'macOS does not let Metalbar reach your local network (192.168.1.10)',
      'System Settings → Privacy & Security → Local Network',
      'Open Local Network settings',
    ],
    agent: onFirstRun({
      cluster: { state: 'offline', cause: 'localNetwork', message: deniedSentence('192.168.1.10') },
    }),
    height: 760,
  },
  'no-definitions': {
    says: ['LLMKube is not installed there', 'helm install llmkube', 'apply --server-side', 'install LLMKube there.'],
    agent: onFirstRun({
      cluster: {
        state: 'absent',
        message: "The cluster does not have LLMKube's API group inference.llmkube.dev; install LLMKube there.",
      },
    }),
    height: 1_080,
  },
  'no-rights': {
    says: [
      'does not grant the rights that the agent needs',
      'cannot list resource',
      'A cluster administrator',
      'Copy commands for the rights',
      'Optional rights',
    ],
    agent: denied,
    height: 820,
  },
  'no-login': {
    says: ['does not accept the login of the kubeconfig', 'Not logged in', 'auth whoami', 'Try now'],
    agent: onFirstRun({
      cluster: {
        state: 'unauthorized',
        message:
          'The cluster does not accept these credentials (Unauthorized); log in again or choose another context.',
      },
    }),
    height: 820,
  },
  'no-rights-unfolded': {
    says: ['ADMIN=context-of-an-administrator', 'kind: ClusterRole', 'rolebinding metalbar-agent'],
    agent: denied,
    unfold: ['The commands'],
    height: 1_100,
  },
  'no-runtime': {
    says: [
      'llama-server not found',
      'brew install llama.cpp',
      'none that a cluster can reach',
      'Use 192.168.1.20 (en0)',
    ],
    agent: onFirstRun({ lacks: 'runtimeAndAddress' }),
    height: 1_100,
  },
  'large-text-first-run': {
    says: ['What was found', 'No service for this machine yet'],
    agent: onFirstRun(),
    height: 1_600,
    textScale: 2,
  },
} satisfies Record<string, StatedScene>
