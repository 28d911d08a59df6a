import type { Command, ServiceRef } from '../../src/contract/commands.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { eventually } from './eventually.ts'
import type { RunningAgent } from './running-agent.ts'

/** What the answer "done" says has to show in what everyone else sees; fails where it never does. */
export async function untilAsAnswered(agent: RunningAgent, command: Command, message: string): Promise<void> {
  await eventually(() => isAsAnswered(agent, command, message), {
    timeoutMs: patienceMs,
    what: `"${message}", the answer to ${command.name},`,
  })
}

const patienceMs = 15_000

async function isAsAnswered(agent: RunningAgent, command: Command, message: string): Promise<boolean> {
  const isShown = ({ namespace, name }: ServiceRef, isSo: (view: ServiceView) => boolean): boolean => {
    const view = agent.view(name, namespace)
    if (!view || isSo(view)) return true
    throw new Error(`${name} is ${view.state} (${view.reason}): ${view.message}`)
  }
  switch (command.name) {
    case 'stop':
      return isShown(command.service, ({ state, hold }) =>
        command.scope === 'here' ? hold?.by === 'person' : ['stopping', 'stopped', 'foreign'].includes(state),
      )
    case 'start':
    case 'bringBack':
      return isShown(command.service, ({ hold }) => hold === undefined)
    // A person's word: what only memory pressure keeps away comes back by itself.
    case 'evict':
    case 'cancelDownload':
      return isShown(command.service, ({ hold }) => hold?.by === 'person')
    case 'protect':
      return isShown(command.service, ({ memory }) => memory === undefined || memory.isProtected === command.protect)
    case 'skipDrain':
      return isShown(command.service, ({ uid }) => agent.snapshot.figures[uid]?.requestsInFlight === undefined)
    case 'setContextSize':
      return isShown(
        command.service,
        // The tool that keeps the service may set it back.
        ({ contextSize }) => (contextSize ?? null) === command.contextSize || message.includes('may set it back'),
      )
    case 'pauseNode':
      return agent.snapshot.host.paused
    case 'resumeNode':
      return !agent.snapshot.host.paused
    case 'setHostAddress': {
      const answer = await agent.agent.query({ name: 'hostAddresses' })
      const isAutomatic = command.address === 'automatic'
      if (!('automatic' in answer) || answer.automatic !== isAutomatic) return false
      return isAutomatic || agent.snapshot.host.address === command.address
    }
    case 'updateSettings': {
      const answer = await agent.agent.query({ name: 'settings' })
      const shown = 'settings' in answer ? answer.settings : []
      return shown.every(({ name, value, from }) => {
        const set = command.settings[name]
        if (set === undefined) return true
        return set === null ? value === null || from !== 'person' : value === set
      })
    }
    case 'selectContext':
      return agent.snapshot.cluster.context === command.context
    case 'applyModel':
      return agent.view(command.application.name, command.application.namespace) !== undefined
    case 'deleteModel':
      return agent.view(command.service.name, command.service.namespace) === undefined
    case 'cancelPull':
      return !agent.snapshot.downloads.some(({ name, state }) => name === command.model && state === 'downloading')
    case 'removeModel': {
      const answer = await agent.agent.query({ name: 'models' })
      return !(
        'models' in answer && answer.models.some(({ name, state }) => name === command.model && state === 'complete')
      )
    }
    // The answer alone tells what it found.
    case 'pruneModels':
    case 'reloadKubeconfig':
      return true
    case 'restart':
    case 'resync':
    case 'pullModel':
    case 'shutdown':
      throw new Error(`${command.name} only begins: "accepted" is its answer.`)
  }
}
