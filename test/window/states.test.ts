import axe, { type AxeResults, type RunOptions } from 'axe-core'
import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { type SceneName, sceneNames, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

/** The words by which a person knows each state. */
const words: Record<SceneName, readonly string[]> = {
  connecting: ['Connecting to the agent…'],
  'no-agent': ['No agent answers', 'start one with metal-agent', 'Next try', 'Try now'],
  'no-access': ['No access to the agent', 'run metal-agent ui for a new one'],
  empty: [
    ...[
      'What was found',
      'lab · https://10.0.0.1:6443',
      '192.168.1.20 · en0',
      'version 6500 (0e6fdc9a)',
      '412 GB free',
    ],
    ...['No service for this machine yet', 'Add a model…', 'Make a small one in a terminal'],
  ],
  'empty-unfolded': ['kubectl --context lab --namespace default apply -f -', 'Copy command'],
  'no-kubeconfig': ['no context to use', 'There is no kubeconfig at', 'Read the kubeconfig again'],
  'choose-context': ['Choose a context of the kubeconfig:', 'Use minikube', 'Use prod-eu', 'No service is known'],
  'choose-production': ['prod-eu (https://prod-eu.lan:6443) is called production', 'Yes, serve it', 'Stay'],
  'no-answer': ['lab · does not answer', 'connection refused', 'Try now'],
  'no-definitions': [
    'LLMKube is not installed there',
    'helm install llmkube',
    'apply --server-side',
    'install LLMKube there.',
  ],
  'no-rights': [
    ...['does not allow what the agent has to do', 'cannot list resource', 'An administrator of the cluster'],
    ...['Copy commands for the rights', 'Rights that can be left out'],
  ],
  'no-rights-unfolded': ['ADMIN=context-of-an-administrator', 'kind: ClusterRole', 'rolebinding metalbar-agent'],
  'no-runtime': [
    'llama-server not found',
    'brew install llama.cpp',
    'none that a cluster can reach',
    'Use 192.168.1.20 (en0)',
  ],
  'update-unknown': ['Metalbar 1.2.2 runs.', 'Nobody has looked', 'Check for updates', 'leads to the command'],
  'update-available': ['Metalbar 1.2.3 is available: 98.0 MB.', 'Download it', 'Look for updates once a day'],
  'update-downloading': ['41.0 MB of 98.0 MB (42 %), 8.2 MB/s.', 'Cancel the download'],
  'update-elsewhere': ['Who manages this Mac brings its updates', 'is left alone', 'Open Login Items…'],
  'update-ready': ['Metalbar 1.2.3 is downloaded.', 'Restart to update'],
  'update-installing': ['macOS checks who signed Metalbar 1.2.3'],
  'update-installed': ['Metalbar is now 1.2.3.'],
  'update-failed': ['the disk has 120 MB free', 'Check for updates'],
  'update-undone': ['The update to 1.2.3 did not happen'],
  misplaced: ['Metalbar runs from its disk image.', 'Move to Applications'],
  memory: [
    ...['45.6 GB of 72.0 GB for models', '1 service waits', 'pressure normal', 'other 14.2 GB', 'free 36.0 GB'],
    ...['budget 72.0 GB', 'GPU limit 77.3 GB'],
  ],
  'memory-wide': ['pressure normal', '41.2 W', 'GPU 33.0 W · CPU 8.1 W · ANE not reported'],
  'memory-short': ['pressure: critical', 'Applications that are no models hold most of it.', 'free 0 B'],
  power: ['CPU 8.1 W', 'ANE not reported'],
  'power-off': ['off', 'sudo does not allow it yet'],
  work: [
    ...[
      '52.3 tok/s',
      '812 tok/s',
      '1 running · 0 waiting',
      '37 %',
      '5 s ago',
      'about 31.5 W',
      'Measured',
      '9.1 GB',
      'Weights',
    ],
    ...['For pods', 'http://127.0.0.1:51234', 'Copy curl', 'Command line', 'llama-server --model'],
  ],
  'does-not-fit': [
    ...[
      'Does not fit',
      'It needs 43.9 GB, and 26.4 GB are left in the budget of 72.0 GB.',
      'Use 4,096 tokens',
      'longer conversations are cut off',
    ],
    ...['Evict llama-3.3-70b: frees 25.8 GB.', 'llama-3.3-70b answers no more', 'Quit Xcode'],
    ...['Raise the budget to 90.0 GB', 'instead of 72.0 GB', 'It is the next to start.'],
  ],
  'evicted-for-it': ['default/llama-3.3-70b is evicted', 'Undo'],
  delete: ['is deleted in the cluster', 'goes with it', 'Delete phi-4-mini', 'Keep'],
  add: [
    ...['Add a model', 'In the store of this machine', 'phi-4-mini-q4', 'Well-known models', 'Llama 3.2 3B Instruct'],
    ...['3B weights · Q5_K_M', '3.8B weights', 'Look it up'],
  ],
  'add-files': [
    'has 5 models: choose one.',
    'Files of this repository',
    '18.6 GB · Q4_K_M',
    '61.1 GB · bf16 · 2 parts',
  ],
  'add-fits': [
    ...['phi3 · Q5_K_M · 3.8B weights · trained with 131,072 tokens', '2.8 GB are fetched before it starts.', 'Fits'],
    ...['4.6 GB with a context of 8,192 tokens', 'Other models 45.6 GB', 'Weights 2.8 GB', 'KV cache 1.1 GB'],
    ...['Budget 72.0 GB', 'As YAML', 'Add'],
  ],
  'add-does-not-fit': [
    ...[
      'Fits when others leave memory',
      'The disk has 31.0 GB free',
      'Evict phi-4-mini: frees 25.8 GB',
      'Use 2,048 tokens',
    ],
    ...['Raise the budget to 92.0 GB', 'Add, to wait for memory'],
  ],
  'add-refused': [
    'The cluster refused',
    'cannot create it in namespace',
    'kind: InferenceService',
    'Copy the YAML of it',
  ],
  'add-unknown': ['has no public repository nobody/nothing', 'Try again'],
  'add-secret': ['Secret with the token', 'Secret default/hf-team', 'does not exist', 'Try again'],
  'add-wide': ['phi-4-mini', 'KV cache 1.1 GB'],
  'add-large-text': ['Fits when others leave memory', 'Add, to wait for memory'],
  'delete-managed': ['Argo CD keeps it', 'will bring it back', 'Delete phi-4-mini all the same'],
  evicted: ['which was critically short', 'It comes back by itself', 'Bring back'],
  'other-machine': [
    'Served by another machine since',
    ', for 3 min.',
    'The machine "mini" serves it.',
    'takes it over by itself',
  ],
  models: [
    ...['phi-4-mini-q4', '8.2 GB', 'Used by default/phi-4-mini.', 'Last used 1 h ago.', 'No service uses it.'],
    ...['3 models, 9.6 GB · 412 GB free', 'Fetch a model', '2 min left', 'architecture not reported'],
  ],
  'models-delete': [
    'Delete 400 MB from the disk?',
    'Yes, delete it',
    'This deletes 2 models, 1.4 GB:',
    'Delete 2 models',
  ],
  activity: [
    ...['Crashed', 'Process 4711.', 'Settings changed', 'Only problems', 'Show more'],
    ...['Friday 2 January', 'Bring back', 'Back to 30s'],
  ],
  'activity-answered': ['default/deepseek-r1-8b may be served by this machine again.'],
  energy: [
    ...['2.08 kWh · 0.75 EUR', 'Measured in', 'about 932 Wh · 0.34 EUR', 'J per generated token'],
    ...['While no service worked', 'rest of this Mac', 'are estimates', 'As a table'],
  ],
  'energy-service': ['rest of this Mac', 'phi-4-mini'],
  'energy-off': ['Power is not measured, so neither is energy.', 'Turn on', 'Nothing is kept of this time.'],
  'energy-empty': ['Nothing is kept of this time.', 'Power is measured all the time.'],
  'energy-tokens': ['Energy not reported', 'energy not reported', '4,100 tokens generated', 'tokens not reported'],
  settings: [
    ...['prod-eu', '/Users/me/.kube/config', 'Automatic', 'without a router', '412 GB free on its disk'],
    'Cluster',
    'Time for requests to finish',
    'On the command line: drain-timeout.',
    'No changes',
    'given on the command line of the agent',
  ],
  'settings-all': [
    ...[
      'General',
      'Set when the agent starts',
      'Ports of model servers 30000-30099 · from the command line of the agent',
    ],
    ...['Size of an agent log file 10.5 MB · default', 'from the variable HF_TOKEN', 'Install the rule…'],
    ...['= 21.0 MB', 'A change counts from the next start of the agent.'],
  ],
  'settings-start': [
    ...['0.25 · from start-settings.json', 'Write into', '"memoryPressureWarning": 0.25', 'what is set here wins'],
    ...['cannot be read (EACCES)', "LLMKube's rule is too wide", 'Remove the rule…'],
  ],
  'settings-power-rule': ['/etc/sudoers.d/metalbar-powermetrics-501', 'NOPASSWD: /usr/bin/powermetrics'],
  'settings-uninstall': ['One model serves: default/phi-4-mini', 'Downloaded models · 2.5 GB', 'Keep everything'],
  'settings-large-text': ['Ports of model servers', 'Hugging Face token', 'Open at login', 'Figures beside the icon'],
  'settings-conflict': ['Meanwhile it was set to 1m elsewhere', 'Take that', '1 change, not applied'],
  'settings-memory': [
    ...[
      '40 % · 38.4 GB (35.8 GiB)',
      'GPU limit 77.3 GB (72 GiB)',
      'memory 96.0 GB (89.4 GiB)',
      'nomic-embed (300 MB) starts.',
    ],
    ...['smollm-360m (500 MB) leaves memory, so that whisper (2.1 GB) can start.', 'gemma-3-12b (10.4 GB) waits'],
    ...['phi-4-mini (9.8 GB) keeps running, but would not start again beside the others.', 'not start again at all'],
  ],
  'settings-memory-large-text': ['40 % · 38.4 GB', 'nomic-embed (300 MB) starts.'],
  'settings-changed': ['It must be a time from 0s to 1h, such as 30s, 2m or 1h30m.', '1 field is not right.'],
  services: [
    ...['Ready', 'Downloading', 'Starting', 'Not ready', 'Crash loop', 'Refused', 'Stopping', 'Stopped', 'Waiting'],
    ...['Not started', 'Getting healthy', 'Not healthy', 'Next: Fetched'],
    ...['On another machine', '42 % · 7.9 GB of 18.6 GB · 61.0 MB/s · 2 min left', 'The machine "mini" serves it.'],
  ],
  'services-wide': ['phi-4-mini', 'Choose a service to see its steps'],
  'detail-wide': ['qwen3-30b-a3b', 'For pods'],
  detail: ['Serving at 192.168.1.20:51234.', 'Stop', 'Restart', 'llama-server · port 51234 · process 4711'],
  'detail-tall': ['Log', 'This run', 'Skipped 1,200 lines.', 'POST /v1/chat/completions 192.168.1.7 200 (24)'],
  'detail-news': [
    ...['Conditions in the cluster', 'Available: False', 'NoEndpoints', 'No endpoint was ready.'],
    ...['Recent Events', 'Crashed, 3 times', 'llmkube-metal-agent', 'metal-agent events lists all'],
  ],
  'log-search': ['2 of 7', 'Paused'],
  'log-previous': ['failed to allocate buffer', 'Show file'],
  'no-previous-log': ['No earlier run is kept.'],
  download: ['7.9 GB of 18.6 GB · 61.0 MB/s · 2 min left', 'Cancel download', 'not running'],
  starting: ['Process 4712.', 'The server is loading the model.', 'Cluster agrees', 'not yet'],
  draining: ['Waiting for 2 requests to finish.'],
  crash: [
    ...['Crashed 4 times in a row', 'has wrong shape', 'The model file is most likely damaged'],
    ...['Exit code 1', '1.3 GB', 'Next attempt', 'Last 6 lines before the crash'],
  ],
  'crash-lines': ['main: loading model', 'error loading model', 'Last 6 lines before the crash'],
  'crash-over': ['Crashed earlier, and serves again', 'Last 6 lines before the crash'],
  hold: ['the cluster did not take the change', 'Held on this machine since', ', for 14 min.', 'Start'],
  'stop-pending': ['Stopping…'],
  'stop-refused': ['The cluster refused', 'user "me" cannot patch it', 'Hold it on this machine'],
  'stop-unknown': ['Whether it was done is not known.', 'Try again'],
  stale: ['No agent', 'The agent ended.', 'What you see is from', 'Try now', 'phi-4-mini'],
  'cluster-away': ['Stale', 'connection refused', 'For 2 min, next try', 'phi-4-mini'],
  'held-after-panic': ['This machine ended with a kernel panic', 'Serve again', 'on battery, 84 %, Low Power Mode'],
  paused: ['This machine is paused', 'Resume', 'There is no Metal on this machine'],
  'no-address': ['No address', 'choose one with --host-ip'],
  'long-names': ['phi-4-mini', 'version-2'],
  'long-names-detail': ['with-a-very-long-name-version-2', 'Stop'],
  'settings-production': [
    'prod-eu (https://prod.example.com) is called production',
    'What runs for the present',
    'Stay',
  ],
  'large-text': ['phi-4-mini', 'Downloading', 'Live', '192.168.1.20'],
  'large-text-detail': ['Crashed 4 times in a row', 'Restart'],
  'large-text-models': ['phi-4-mini-q4', 'Fetch a model'],
  'large-text-activity': ['Crashed', 'Only problems'],
  'large-text-settings': ['Time for requests to finish', 'No changes'],
  'large-text-first-run': ['What was found', 'No service for this machine yet'],
}

const everyScene = sceneNames.map((name) => ({ name, scene: scenes[name] }))

test.each(everyScene)('$name says what is so, to everybody, in light and dark', async ({ name, scene }) => {
  await using window = await show(scene)
  const { page, complaints } = window
  for (const text of words[name]) {
    await page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: 15_000 })
  }
  await page.evaluate(axe.source)
  const light = await violations(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  const found = { light, dark: await violations(page, ofColours), tooWide: await tooWide(page), complaints }
  expect(found).toEqual({ light: [], dark: [], tooWide: [], complaints: [] })
})

/** What a person would have to scroll sideways for, or sees cut off without a mark; code and logs have a scroll bar of their own. */
function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const cutOff = (element: Element) =>
      element.scrollWidth > element.clientWidth + 1 &&
      // Text for screen readers only is one pixel wide.
      element.clientWidth > 1 &&
      getComputedStyle(element).textOverflow !== 'ellipsis'
    return [...document.querySelectorAll('body *')]
      .filter((element) => element.getClientRects().length > 0 && element.closest('pre, svg, [role="log"]') === null)
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1 || cutOff(element))
      .map((element) => element.outerHTML.slice(0, 200))
  })
}

/** Dark is the same page in other colours. */
const ofColours: RunOptions = { runOnly: ['color-contrast', 'link-in-text-block'] }

/** Of WCAG 2.2, levels A and AA, and of what is good practice. */
async function violations(page: Page, options: RunOptions = {}): Promise<unknown[]> {
  const { violations: found } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(options)})`)
  return found.map(({ id, impact, nodes }) => ({ id, impact, where: nodes.map(({ html }) => html) }))
}
