import { sentence } from '../contract/clean-text.ts'
import type { AgentKeys } from './agent-keys.ts'
import { maxBodyBytes, type News } from './notifications/news.ts'

/** What the window calls each key that an earlier build kept in `preferences.json`. */
export const movedTitles: Readonly<Record<keyof AgentKeys, string>> = {
  kubeconfig: 'Kubeconfig',
  context: 'Context',
  namespace: 'Namespace',
  inferenceServiceAllowlist: 'Services this machine may claim',
  modelStore: 'Folder of models',
  allowedModelRoots: 'Folders a Model may name',
  allowUnsafeExtraArgs: 'Pass on unsafe arguments',
  allowedEnv: 'Variables a service may set',
  allowedDownloadHosts: 'Private hosts to download from',
  hubLoginNamespaces: 'Namespaces that share the Hugging Face token',
  llamaServer: 'Path of llama-server',
  llamaServerStartupTimeoutMs: 'Longest wait for a model that loads',
  hostIp: 'Host address',
  port: 'Port of health and metrics',
  logLevel: "Detail of the agent's log",
}

export type MovedKeys = readonly (keyof AgentKeys)[]

const titlesOf = (keys: MovedKeys): string => keys.map((key) => movedTitles[key]).join(', ')

/** In the menu, the window and `metal-agent status`, until the app ends. */
export const movedNotice = (keys: MovedKeys): string =>
  `Moved from preferences.json to Settings, the same as before: ${titlesOf(keys)}.`

/** Where a person looks at none of them meanwhile. */
export const movedNews = (keys: MovedKeys): News => {
  const settings = { kind: 'open', at: { view: 'settings' } } as const
  return {
    id: 'settings moved',
    title: 'Your settings moved',
    body: sentence(
      `They say the same as before, and Settings shows them from now on: ${titlesOf(keys)}.`,
      maxBodyBytes,
    ),
    click: settings,
    action: { label: 'Open Settings', deed: settings },
  }
}
