import { join } from 'node:path'
import { buildKubernetes, kubernetesFolder, kubernetesVersion } from './control-plane.ts'
import { missingGo } from './go.ts'
import type { Part } from './part.ts'
import { isExecutable } from './tools.ts'

/** The judge of how a kubeconfig is read; of no other version, as that changes with it. */
export const kubectlPart: Part = {
  name: 'kubectl',
  about: `kubectl ${kubernetesVersion}; 2 to 5 minutes on 2 cores, once`,
  required: true,
  find: () => {
    const path = join(kubernetesFolder('kubectl'), 'kubectl')
    return isExecutable(path)
      ? { found: true, path, origin: 'built' }
      : { found: false, reason: 'kubectl is not built: run `make setup`' }
  },
  lacks: () => missingGo('1.26', 'run the other tests'),
  build: (logFile) => buildKubernetes('kubectl', 'k8s.io/kubernetes/cmd/kubectl', logFile),
}
