import {
  exitTimeoutS,
  serviceEnvironment,
  type ServiceKind,
  type ServicePlan,
} from '../../../../src/installation/service/service-plan.ts'

/** As `metal-agent install -- --namespace default` makes them for a user called "you"; the files of assets show them. */
export function examplePlan(kind: ServiceKind, change: Partial<ServicePlan> = {}): ServicePlan {
  const homeDir = '/Users/you'
  const stateDir = `${homeDir}/Library/Application Support/Metalbar`
  const logs = `${homeDir}/Library/Logs/Metalbar`
  const user = { name: 'you', id: 501, groupId: 20, homeDir }
  return {
    kind,
    program: [`${stateDir}/command/metal-agent`],
    flags: new Map([
      ['state-dir', stateDir],
      ['model-store', `${stateDir}/models`],
      ['log-file', `${logs}/metal-agent.log`],
      ['namespace', 'default'],
    ]),
    environment: serviceEnvironment(kind, { env: { KUBECONFIG: `${homeDir}/.kube/config` }, user }).variables,
    workingDirectory: homeDir,
    errorFile: `${logs}/metal-agent.err.log`,
    exitTimeoutS: exitTimeoutS(30_000),
    ...(kind === 'launchDaemon' && { userName: 'you' }),
    ...change,
  }
}

/** What paths and values of people have in them. */
export const oddTexts = [
  '/Users/you/Models & <more> "x"',
  "it's 100% $HOME \\ here",
  'größer = ü; # no comment',
  '/ends with\\',
]
