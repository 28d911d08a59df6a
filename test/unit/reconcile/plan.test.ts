import { describe, expect, test } from 'vitest'
import { unknownDigest } from '../../../src/agent-core/servers/adoption.ts'
import type { Desired } from '../../../src/agent-core/reconcile/desired.ts'
import type {
  Observation,
  PublicationView,
  ServerView,
  Unreached,
} from '../../../src/agent-core/reconcile/plan/observation.ts'
import { plan } from '../../../src/agent-core/reconcile/plan/plan.ts'

const now = 1_000_000
const ip = '192.0.2.7'
const serve: Desired = {
  kind: 'serve',
  runtime: 'llama-server',
  runtimeFrom: 'spec.runtime',
  source: 'https://models.example/a.gguf',
  digest: 'd1',
}
const unsettledWish: Desired = { ...serve, settlesAt: now + 1 }
const unknown: Desired = { kind: 'unknown', message: 'Too early.' }
const gone: Desired = { kind: 'gone', message: 'Deleted.' }
const notOurs: Desired = { kind: 'notOurs', message: 'Another accelerator.' }
const excluded: Desired = { kind: 'excluded', message: 'Not in the allowlist.' }
const stopped: Desired = { kind: 'stopped', reason: 'Stopped', message: 'Scaled to zero replicas.' }
const refused: Desired = { kind: 'refused', reason: 'Refused', message: 'Wrong format.' }
const argsRejected = { kind: 'refused', reason: 'ExtraArgsRejected', message: '--tools is refused.' } as const
const held: Desired = { kind: 'held', reason: 'Held', message: 'Evicted.' }
const unreadable: Desired = { kind: 'unreadable', message: 'Not usable.', isForMac: true }
const unreadableElsewhere: Desired = { ...unreadable, isForMac: false }
const modelMissing: Desired = { kind: 'modelMissing', message: 'No Model.' }

const nothingPublished: PublicationView = {
  claim: 'absent',
  message: '',
  retryAt: undefined,
  service: 'absent',
  serviceMessage: '',
  shown: undefined,
  complete: true,
  present: false,
}
const claimed: PublicationView = { ...nothingPublished, claim: 'ours', service: 'ours', present: true }
const shownReady: PublicationView = { ...claimed, shown: { address: ip, port: 5001, ready: true } }
const withdrawn: PublicationView = { ...claimed, shown: { address: ip, port: 5001, ready: false } }
const foreign: PublicationView = {
  ...nothingPublished,
  claim: 'foreign',
  message: 'Studio-2 serves it.',
  retryAt: now + 99,
}

const editedAgain: PublicationView = {
  ...shownReady,
  shown: { address: ip, port: 1, ready: true },
  mendAt: now + 30_000,
}

const shownElsewhere: PublicationView = { ...claimed, shown: { address: ip, port: 9, ready: true } }
const fetched: Observation['fetch'] = { kind: 'done', source: serve.source }
const ready: ServerView = { kind: 'ready', digest: 'd1', port: 5001 }
const starting = { kind: 'starting', digest: 'd1', failures: 0, message: 'Loading.' } as const satisfies ServerView
const found: ServerView = { ...starting, unasked: true, message: 'Found running.' }
const unready: ServerView = { kind: 'unready', digest: 'd1', port: 5001, message: 'Does not answer.' }
const stopping: ServerView = { kind: 'stopping', message: 'Waiting for it to end.' }
const crashed = {
  kind: 'failed',
  digest: 'd1',
  duringStart: false,
  message: 'Killed by SIGKILL.',
  failures: 1,
  nextStartAt: now + 500,
} as const satisfies ServerView

const idle: Observation = {
  now,
  desired: serve,
  address: { ip, message: '' },
  fetch: { kind: 'none' },
  server: { kind: 'none' },
  instead: { refusal: undefined },
  obstacle: undefined,
  unloaded: undefined,
  stopReason: '',
  publication: nothingPublished,
  restartAsked: false,
  paused: false,
  silence: undefined,
  clusterRetry: undefined,
}
const refusal = { at: now + 5_000, message: 'The cluster did not accept it.', isRefusal: true }
const outage = { at: now + 5_000, message: 'The cluster did not answer.' }

const obstacle = { reason: 'InsufficientMemory', message: 'Needs 24.0 GB, 18.7 GB left.' } as const
const since = new Date(now).toISOString()
const unused: Observation['unloaded'] = { kind: 'idle', since, message: 'Idle.' }
const instead: Observation['instead'] = { refusal: 'The new server does not fit.' }
const changed: Partial<Observation> = {
  desired: { ...serve, digest: 'd2' },
  publication: shownReady,
  fetch: fetched,
  server: ready,
}
const answering = { publication: claimed, fetch: fetched, server: ready } as const satisfies Partial<Observation>
const told = { publication: shownReady } as const satisfies Partial<Observation>
const fetching: Observation['fetch'] = { kind: 'running', source: serve.source }
const noAddress: Observation['address'] = { ip: undefined, message: 'No network.' }
const outdated: ServerView = { ...ready, digest: 'd0' }
const due: ServerView = { ...crashed, nextStartAt: now }
const crashedBefore: ServerView = { ...crashed, digest: 'd0' }
const spared: Desired = { ...argsRejected, spares: { except: undefined } }
const unsettledChange: Desired = { ...unsettledWish, digest: 'd2' }
const ofPredecessor: PublicationView = { ...shownReady, claim: 'previous' }
const ofDeadAgent: PublicationView = { ...shownReady, claim: 'dead', present: false }
const serviceOutdated: PublicationView = { ...shownReady, service: 'outdated' }
const serviceAlone: PublicationView = { ...nothingPublished, service: 'ours' }
const shown = { publication: shownReady, server: ready } as const satisfies Partial<Observation>
const serving = { ...shown, fetch: fetched } as const satisfies Partial<Observation>
const withheld = { ...serving, publication: withdrawn } as const satisfies Partial<Observation>
const closed: Unreached = { kind: 'closed', reason: 'NoGateway', message: 'Nobody listens there.' }
const notKnown: Unreached = { kind: 'unknown', reason: 'NoGateway', message: 'The gateway is asked to listen.' }
const misplaced: Unreached = { kind: 'misplaced', reason: 'NoHostAddress', message: 'It listens elsewhere.' }
const exposed: Unreached = { kind: 'exposed', reason: 'NoApiKey', message: 'It is open to all.' }

/** What is observed, and what follows: the next step and the state that people see. */
type Story = Readonly<Record<string, readonly [facts: Partial<Observation>, outcome: string]>>

/** A story in which something holds all along. */
const given = (facts: Partial<Observation>, story: Story): Story =>
  Object.fromEntries(Object.entries(story).map(([title, [more, outcome]]) => [title, [{ ...facts, ...more }, outcome]]))

/** The rows of one block tell one story in order. */
const stories: Readonly<Record<string, Story>> = {
  'from nothing to serving': {
    'a wanted service is claimed before anything else is done for it': [{}, 'claim, waiting'],
    'a claim that another agent let go is claimed': [
      { publication: { ...nothingPublished, claim: 'released' } },
      'claim, waiting',
    ],
    'without an address, the slice of an InferenceService that is gone is no longer shown': [
      { publication: ofPredecessor, address: noAddress },
      'unpublish, waiting',
    ],
    'also while this machine is paused': [{ publication: ofPredecessor, paused: true }, 'unpublish, waiting'],
    'a dead claim is taken over': [{ publication: { ...nothingPublished, claim: 'dead' } }, 'claim, waiting'],
    'one that cannot be served here is withdrawn, so that traffic does not flow into a hole': [
      { desired: modelMissing, publication: ofDeadAgent },
      'withdrawDead, waiting',
    ],
    'also for want of an address': [{ publication: ofDeadAgent, address: noAddress }, 'withdrawDead, waiting'],
    'no sooner than that allows where something makes it ready again and again': [
      { desired: modelMissing, publication: { ...shownReady, claim: 'dead', present: false, mendAt: now + 30_000 } },
      'rest, waiting',
    ],
    'but not by an agent that was told to keep away': [
      { desired: excluded, publication: ofDeadAgent },
      'rest, stopped',
    ],
    'the Service follows the claim': [{ publication: { ...claimed, service: 'absent' } }, 'ensureService, fetching'],
    'an outdated Service is brought up to date': [
      { publication: { ...claimed, service: 'outdated' } },
      'ensureService, fetching',
    ],
    'then the model is fetched': [{ publication: claimed }, 'fetch, fetching'],
    'a download under way is left alone': [{ publication: claimed, fetch: fetching }, 'rest, fetching'],
    'a fetched model starts the server': [{ publication: claimed, fetch: fetched }, 'start, starting'],
    'a loading server is not published': [{ publication: claimed, fetch: fetched, server: starting }, 'rest, starting'],
    'a server that answered is published': [answering, 'publish, starting'],
    'a published server rests': [serving, 'rest, ready'],
  },
  'a server found running counts as what it was until it was asked': {
    'what is published stays': [{ publication: shownReady, server: found }, 'rest, starting'],
    'what was not published is not': [{ publication: withdrawn, server: found }, 'rest, starting'],
    'what is published goes when it did not answer for too long': [
      { publication: shownReady, server: starting },
      'withdraw, starting',
    ],
    'without its Model it stays as well': [
      { desired: modelMissing, publication: shownReady, server: found },
      'rest, starting',
    ],
    'unwanted it is withdrawn': [{ desired: gone, publication: shownReady, server: found }, 'withdraw, stopping'],
    'and stopped': [{ desired: gone, publication: withdrawn, server: found }, 'stop, stopping'],
    'one that serves something else is replaced, the endpoint first': [
      { publication: shownReady, fetch: fetched, server: { ...found, digest: 'd0' } },
      'withdraw, stopping',
    ],
    'one that serves nobody knows what is replaced as well': [
      { publication: withdrawn, fetch: fetched, server: { ...found, digest: unknownDigest } },
      'stop, stopping',
    ],
    'until the cluster has told everything it goes on': [
      { desired: unknown, publication: shownReady, server: found },
      'rest, waiting',
    ],
  },
  'what serves is told again when it moves': {
    'a new host address is published': [{ ...shown, address: { ip: '192.0.2.8', message: '' } }, 'publish, starting'],
    'a new port is published': [{ publication: shownReady, server: { ...ready, port: 5002 } }, 'publish, starting'],
    'a lost host address withdraws': [{ ...shown, address: noAddress }, 'withdraw, unready'],
    'what an earlier agent left ready is withdrawn although there is no host address': [
      { publication: shownReady, address: noAddress },
      'withdraw, starting',
    ],
    'without a host address nothing is started': [
      { publication: nothingPublished, address: noAddress },
      'rest, waiting',
    ],
  },
  'pods are told of a server that they reach, and of no other': {
    'one that nobody reaches yet is not published': [{ ...answering, unreached: closed }, 'rest, unready'],
    'and withdrawn where it was': [{ ...answering, ...told, unreached: closed }, 'withdraw, unready'],
    'but not while the cluster does not answer': [
      { ...answering, ...told, unreached: closed, clusterRetry: outage },
      'rest, unready',
    ],
    'what is not known yet stays published': [{ ...answering, ...told, unreached: notKnown }, 'rest, ready'],
    'and is not published before': [{ ...answering, unreached: notKnown }, 'rest, unready'],
    'one that listens at an address that is published no longer is replaced: it is withdrawn first': [
      { ...answering, ...told, unreached: misplaced },
      'withdraw, stopping',
    ],
    'what is open without the key that it asks for is withdrawn': [
      { ...answering, ...told, unreached: exposed },
      'withdraw, stopping',
    ],
    'then stopped': [{ ...answering, unreached: exposed }, 'stop, stopping'],
    'also while its Model is missing': [
      { ...answering, fetch: idle.fetch, desired: modelMissing, unreached: exposed },
      'stop, stopping',
    ],
    'and not started again where nobody asks for the key': [
      {
        publication: claimed,
        fetch: fetched,
        obstacle: { reason: 'NoApiKey', message: 'Open to all.', retryAt: now + 5 },
      },
      'rest, waiting',
    ],
  },
  'a server in trouble': {
    'a server that has just ended is withdrawn before it is collected': [
      { publication: shownReady, fetch: fetched, server: stopping },
      'withdraw, stopping',
    ],
    'a crash is withdrawn in the same turn': [
      { publication: shownReady, fetch: fetched, server: crashed },
      'withdraw, waiting',
    ],
    'the next start waits for the back-off': [
      { publication: withdrawn, fetch: fetched, server: crashed },
      'rest, waiting',
    ],
    'the next start comes when the back-off has passed': [
      { publication: withdrawn, fetch: fetched, server: due },
      'start, starting',
    ],
    'a changed specification does not wait for the back-off': [
      { publication: withdrawn, fetch: fetched, server: crashedBefore },
      'start, starting',
    ],
    'repeated failures have a name': [
      { publication: withdrawn, fetch: fetched, server: { ...crashed, failures: 3 } },
      'rest, crash-looping',
    ],
    'who asked for a new process does not get the old one back': [
      { ...serving, restartAsked: true },
      'withdraw, stopping',
    ],
    'nor one that is still starting': [
      { publication: claimed, fetch: fetched, server: starting, restartAsked: true },
      'stop, stopping',
    ],
    'the model is there before the old process goes': [{ ...shown, restartAsked: true }, 'fetch, fetching'],
    'a server that stops answering is withdrawn': [{ publication: shownReady, server: unready }, 'withdraw, unready'],
    'and left alone after that': [{ publication: withdrawn, server: unready }, 'rest, unready'],
  },
  'held back on this machine': given(
    { desired: held },
    {
      'the endpoint goes first': [shown, 'withdraw, stopping'],
      'then the server': [{ publication: withdrawn, server: ready }, 'stop, stopping'],
      'a download ends': [{ publication: claimed, fetch: { kind: 'running', source: 's' } }, 'cancelFetch, stopping'],
      'then the claim is free for others': [{ publication: withdrawn }, 'release, stopping'],
      'and the slice stays for whoever takes it': [
        { publication: { ...withdrawn, claim: 'released' } },
        'rest, stopped',
      ],
      'what another agent holds is left to it': [{ publication: foreign }, 'rest, stopped'],
      'without the cluster the server stops all the same': [{ ...shown, clusterRetry: outage }, 'stop, stopping'],
      'and the cluster is told later': [{ publication: shownReady, clusterRetry: outage }, 'rest, stopped'],
    },
  ),
  'a paused machine': given(
    { paused: true },
    {
      'withdraws what is ready': [shown, 'withdraw, unready'],
      'keeps its models': [{ publication: withdrawn, server: ready }, 'rest, unready'],
      'starts nothing': [{ publication: claimed, fetch: fetched }, 'rest, waiting'],
      'claims nothing': [{}, 'rest, waiting'],
      'restarts nothing': [{ publication: withdrawn, server: outdated }, 'rest, unready'],
      'keeps a model whose Model is gone from the traffic too': [
        { ...shown, desired: modelMissing },
        'withdraw, unready',
      ],
      'stops what the cluster stops': [{ desired: stopped, publication: withdrawn, server: ready }, 'stop, stopping'],
    },
  ),
  'a machine that sleeps, or slept': {
    'withdraws what is ready': [{ ...shown, silence: 'asleep' }, 'withdraw, unready'],
    'publishes nothing that has not answered since': [
      { silence: 'unverified', publication: withdrawn, server: ready },
      'rest, unready',
    ],
    'starts nothing': [{ silence: 'asleep', publication: claimed, fetch: fetched }, 'rest, waiting'],
  },
  'a restart that a person asked for': given(
    { restartAsked: true },
    {
      'withdraws first': [serving, 'withdraw, stopping'],
      'then stops': [withheld, 'stop, stopping'],
      'then starts': [{ publication: withdrawn, fetch: fetched }, 'start, starting'],
      'fetches the model first where it is not here any more': [shown, 'fetch, fetching'],
    },
  ),
  'a changed specification': {
    'what serves keeps serving while more changes may follow': [
      { desired: unsettledWish, publication: shownReady, fetch: fetched, server: outdated },
      'rest, ready',
    ],
    'an address that somebody changed is put right meanwhile': [
      { desired: unsettledWish, publication: shownElsewhere, fetch: fetched, server: outdated },
      'publish, starting',
    ],
    'while the new model is fetched as well': [
      { publication: shownElsewhere, fetch: fetching, server: outdated },
      'publish, starting',
    ],
    'and a machine that lost its address withdraws it then': [
      { publication: shownReady, address: noAddress, fetch: fetching, server: outdated },
      'withdraw, unready',
    ],
    'so does what is only starting': [
      { desired: unsettledWish, publication: claimed, fetch: fetched, server: { ...starting, digest: 'd0' } },
      'rest, starting',
    ],
    'a first start does not wait for more': [
      { desired: unsettledWish, publication: claimed, fetch: fetched },
      'start, starting',
    ],
    'the endpoint goes first': [{ publication: shownReady, fetch: fetched, server: outdated }, 'withdraw, stopping'],
    'then the old server': [{ publication: withdrawn, fetch: fetched, server: outdated }, 'stop, stopping'],
    'its end is waited for': [{ publication: withdrawn, fetch: fetched, server: stopping }, 'rest, stopping'],
    'then the new one starts': [{ publication: withdrawn, fetch: fetched }, 'start, starting'],
    'the model of another source is let go first, and with it the look for its newer content': [
      { publication: shownReady, fetch: { kind: 'done', source: 'https://models.example/old.gguf' }, server: outdated },
      'cancelFetch, fetching',
    ],
    'then a new model is fetched while the old one serves': [
      { publication: shownReady, server: outdated },
      'fetch, fetching',
    ],
    'one that crashes meanwhile is withdrawn, however long the download takes': [
      { publication: shownReady, fetch: fetching, server: crashedBefore },
      'withdraw, waiting',
    ],
    'the download of a model that is no longer wanted is dropped': [
      { publication: claimed, fetch: { kind: 'running', source: 'https://models.example/old.gguf' } },
      'cancelFetch, fetching',
    ],
  },
  'a model that cannot be had': {
    'a passing failure is tried again at its time': [
      { publication: claimed, fetch: { kind: 'failed', source: serve.source, message: 'HTTP 503.', retryAt: now } },
      'fetch, fetching',
    ],
    'and not before': [
      { publication: claimed, fetch: { kind: 'failed', source: serve.source, message: 'HTTP 503.', retryAt: now + 1 } },
      'rest, waiting',
    ],
    'a terminal failure waits for a change': [
      {
        publication: claimed,
        fetch: { kind: 'failed', source: serve.source, message: 'A web page.', retryAt: undefined },
      },
      'rest, refused',
    ],
    'a failed download of the next model leaves the serving one alone': [
      {
        publication: shownReady,
        fetch: { kind: 'failed', source: serve.source, message: 'HTTP 404.', retryAt: undefined },
        server: outdated,
      },
      'rest, refused',
    ],
  },
  'scaled to zero or suspended': given(
    { desired: stopped },
    {
      'the endpoint goes first': [shown, 'withdraw, stopping'],
      'then the server': [{ publication: withdrawn, server: ready }, 'stop, stopping'],
      'then slice and Endpoints, and the Service stays': [{ publication: withdrawn }, 'unpublish, stopping'],
      'then nothing': [{ publication: serviceAlone }, 'rest, stopped'],
      'a download is cancelled': [{ publication: claimed, fetch: fetching }, 'cancelFetch, stopping'],
      'a start under way is stopped': [{ publication: claimed, server: starting }, 'stop, stopping'],
    },
  ),
  deleted: {
    'what still names an earlier object is unpublished before the server goes': [
      { desired: stopped, publication: ofPredecessor, server: ready },
      'unpublish, stopping',
    ],
    'the endpoint goes first': [{ ...shown, desired: gone }, 'withdraw, stopping'],
    'then the server': [{ desired: gone, publication: withdrawn, server: ready }, 'stop, stopping'],
    'then all three objects': [{ desired: gone, publication: withdrawn }, 'remove, stopping'],
    'a Service without a slice goes too': [{ desired: gone, publication: serviceAlone }, 'remove, stopping'],
    'a Service of another agent stays': [
      { desired: gone, publication: { ...nothingPublished, service: 'adoptable' } },
      'rest, stopped',
    ],
    'what another agent holds is left to it': [
      { desired: gone, publication: { ...foreign, service: 'ours' } },
      'rest, stopped',
    ],
    'what a dead agent held is withdrawn': [
      { desired: gone, publication: { ...shownReady, claim: 'dead', message: 'Silent.', present: false } },
      'withdrawDead, stopped',
    ],
    'and left to garbage collection': [
      { desired: gone, publication: { ...withdrawn, claim: 'dead', present: false } },
      'rest, stopped',
    ],
    'a Service of somebody else stays': [
      { desired: gone, publication: { ...nothingPublished, service: 'taken' } },
      'rest, stopped',
    ],
  },
  'not for a Mac, or no longer': {
    'what we serve is taken down but for the Service': [
      { desired: notOurs, publication: withdrawn },
      'unpublish, stopping',
    ],
    'what we never touched is not even shown': [{ desired: notOurs }, 'rest, stopped'],
    'what an agent let go is cleared away': [
      { desired: notOurs, publication: { ...withdrawn, claim: 'released' } },
      'unpublish, stopping',
    ],
    'but not where the allowlist says that it is for other agents': [
      { desired: excluded, publication: { ...withdrawn, claim: 'released' } },
      'rest, stopped',
    ],
  },
  refusals: {
    'a refused specification takes the running server down': [{ ...shown, desired: refused }, 'withdraw, stopping'],
    'and says why': [{ desired: refused }, 'rest, refused'],
    'a Service of somebody else is never taken over': [
      { publication: { ...nothingPublished, service: 'taken', serviceMessage: 'Delete Service a.' } },
      'rest, refused',
    ],
    'a Service of another agent is adopted': [
      { publication: { ...claimed, service: 'adoptable' } },
      'ensureService, fetching',
    ],
  },
  'a Model that is missing': given(
    { desired: modelMissing },
    {
      'nothing is started': [{}, 'rest, waiting'],
      'what has it in memory is told again when it moves': [
        { publication: claimed, server: ready },
        'publish, starting',
      ],
      'what has it in memory and does not answer is withdrawn': [
        { publication: shownReady, server: unready },
        'withdraw, unready',
      ],
      'and not stopped, as it could not be started again': [
        { publication: withdrawn, server: unready },
        'rest, unready',
      ],
      'what has it in memory keeps serving': [shown, 'rest, ready'],
    },
  ),
  'rules for specs that a running server came before': {
    'what serves goes on': [{ ...shown, desired: spared }, 'rest, ready'],
    'what was found running goes on': [{ desired: spared, publication: shownReady, server: found }, 'rest, starting'],
    'what others may run programs with does not': [
      { ...shown, desired: { ...argsRejected, spares: { except: 'd1' } } },
      'withdraw, stopping',
    ],
    'whatever content of the model it was started with': [
      {
        desired: { ...argsRejected, spares: { except: 'd1' } },
        publication: withdrawn,
        server: { ...ready, digest: 'd1+abc' },
      },
      'stop, stopping',
    ],
    'nor what nobody knows the arguments of': [
      {
        desired: { ...argsRejected, spares: { except: 'd1' } },
        publication: withdrawn,
        server: { ...ready, digest: unknownDigest },
      },
      'stop, stopping',
    ],
    'a server of the spec before goes on': [
      { ...shown, desired: { ...argsRejected, spares: { except: 'd2' } } },
      'rest, ready',
    ],
    'nothing is started': [{ desired: spared, publication: claimed, server: crashed }, 'unpublish, stopping'],
    'a start that this machine refused is shown as refused': [
      {
        publication: claimed,
        fetch: fetched,
        server: { ...crashed, duringStart: true, failures: 5, refusal: 'ExtraArgsRejected' },
      },
      'rest, refused',
    ],
  },
  'a claim in doubt': {
    'what serves keeps serving': [{ publication: { ...shownReady, claim: 'uncertain' }, server: ready }, 'rest, ready'],
    'a slice made for an earlier object of the name is claimed anew': [
      { publication: { ...claimed, claim: 'previous' }, server: ready },
      'claim, waiting',
    ],
    'a slice we lost is left to others for a moment': [
      { publication: { ...nothingPublished, retryAt: now + 1 } },
      'rest, waiting',
    ],
    'a slice of somebody else is never touched': [
      { publication: { ...nothingPublished, claim: 'taken', message: 'Rename one.' } },
      'rest, refused',
    ],
    'incomplete caches conclude nothing': [{ publication: { ...nothingPublished, claim: 'unknown' } }, 'rest, waiting'],
    'Endpoints that lag behind the slice are written': [
      { publication: { ...shownReady, complete: false }, server: ready },
      'publish, starting',
    ],
  },
  'another Mac holds the claim': {
    'nothing is started': [{ publication: foreign }, 'rest, foreign'],
    'our own server is stopped': [{ publication: foreign, server: ready }, 'stop, foreign'],
    'our download is cancelled': [{ publication: foreign, fetch: fetching }, 'cancelFetch, foreign'],
    'a claim that was written over starts no war': [
      { publication: { ...foreign, claim: 'overwritten' } },
      'rest, foreign',
    ],
  },
  'a Service that cannot be written': given(
    { fetch: fetched },
    {
      'is no reason not to withdraw': [{ publication: serviceOutdated, server: crashed }, 'withdraw, waiting'],
      'nor not to publish': [{ publication: { ...claimed, service: 'absent' }, server: ready }, 'publish, starting'],
      'comes after them': [{ publication: serviceOutdated, server: ready }, 'ensureService, ready'],
      'waits for its own next attempt': [
        { publication: serviceOutdated, server: ready, serviceRetry: outage },
        'rest, ready',
      ],
      'holds up no start': [
        { publication: { ...claimed, service: 'absent' }, serviceRetry: outage },
        'start, starting',
      ],
      'and without it nothing is reached': [
        { publication: { ...shownReady, service: 'absent' }, server: ready, serviceRetry: outage },
        'rest, unready',
      ],
      'waits where others change it again and again': [
        {
          publication: { ...shownReady, service: 'outdated', serviceMendAt: now + 1 },
          server: ready,
        },
        'rest, ready',
      ],
      'and is written when that is over': [
        { publication: { ...shownReady, service: 'outdated', serviceMendAt: now }, server: ready },
        'ensureService, ready',
      ],
    },
  ),
  'a write that the cluster refuses': {
    'is waited for by what answers, as pods are still sent there': [
      { ...shown, clusterRetry: refusal, desired: stopped },
      'rest, stopping',
    ],
    'also by what was found running where pods are sent, before it is asked': [
      { clusterRetry: refusal, desired: stopped, publication: shownReady, server: { ...found, port: 5001 } },
      'rest, stopping',
    ],
    'not by what answers elsewhere': [
      { clusterRetry: refusal, desired: stopped, publication: shownElsewhere, server: ready },
      'stop, stopping',
    ],
    'not where a person or memory wants it down': [
      { ...shown, clusterRetry: refusal, desired: held },
      'stop, stopping',
    ],
    'not by what does not answer': [
      { clusterRetry: refusal, desired: stopped, publication: shownReady, server: unready },
      'stop, stopping',
    ],
    'and the stop goes on when it got through': [
      { ...shown, clusterRetry: { ...refusal, at: now }, desired: stopped },
      'withdraw, stopping',
    ],
  },
  'a slice that others change again and again': given(
    { fetch: fetched, server: ready },
    {
      'is put right when its time has come': [{ publication: { ...editedAgain, mendAt: now } }, 'publish, starting'],
      'and not before': [{ publication: editedAgain }, 'rest, unready'],
    },
  ),
  'the cluster is away': {
    'nothing is claimed': [{ clusterRetry: outage }, 'rest, waiting'],
    'what serves keeps serving': [{ ...shown, clusterRetry: outage }, 'rest, ready'],
    'nothing is withdrawn, not even without a host address': [
      { ...shown, clusterRetry: outage, address: noAddress },
      'rest, unready',
    ],
    'a crashed server is started again although it cannot be withdrawn': [
      { clusterRetry: outage, publication: shownReady, fetch: fetched, server: due },
      'start, starting',
    ],
    'a stop does not wait for it': [{ ...shown, clusterRetry: outage, desired: stopped }, 'stop, stopping'],
    'what was found running is not stopped for a change before pods can be told': [
      { ...changed, clusterRetry: outage, server: found },
      'rest, starting',
    ],
    'what is left to write waits': [
      { clusterRetry: outage, desired: stopped, publication: shownReady },
      'rest, stopping',
    ],
    'and is written when its time has come': [
      { clusterRetry: { ...outage, at: now }, desired: stopped, publication: withdrawn },
      'unpublish, stopping',
    ],
  },
  'a changed specification restarts the server': {
    'its address is withdrawn first': [changed, 'withdraw, stopping'],
    'then its requests finish': [{ ...changed, publication: withdrawn }, 'stop, stopping'],
    'and nothing is started before it is gone': [
      { ...changed, publication: withdrawn, server: stopping },
      'rest, stopping',
    ],
    'then the new one starts': [{ ...changed, publication: withdrawn, server: { kind: 'none' } }, 'start, starting'],
    'not as long as the change may be half of what is meant': [{ ...changed, desired: unsettledChange }, 'rest, ready'],
    'one that does not answer is withdrawn': [{ ...changed, server: unready }, 'withdraw, unready'],
    'and makes way': [{ ...changed, server: unready, publication: withdrawn }, 'stop, stopping'],
    'as does one that was found running': [{ ...changed, server: found }, 'withdraw, stopping'],
    'it goes on where the cluster does not take the withdrawal': [{ ...changed, clusterRetry: outage }, 'rest, ready'],
    'and is stopped where pods were not told of it': [
      { ...changed, clusterRetry: outage, publication: withdrawn },
      'stop, stopping',
    ],
    'a Restart is the same': [{ ...serving, restartAsked: true }, 'withdraw, stopping'],
  },
  'a specification that cannot be read': {
    'takes nothing from a server that serves': [{ ...shown, desired: unreadable }, 'rest, ready'],
    'nor from one of which nobody knows any more whether it is for a Mac': [
      { ...shown, desired: unreadableElsewhere },
      'rest, ready',
    ],
    'whose address is published, should it not be': [
      { desired: unreadable, publication: withdrawn, server: ready },
      'publish, starting',
    ],
    'one that an earlier agent left is asked': [
      { desired: unreadable, publication: shownReady, server: found },
      'rest, starting',
    ],
    'nothing is begun for it': [{ desired: unreadable, publication: claimed, server: crashed }, 'unpublish, stopping'],
    'and it says why': [{ desired: unreadable }, 'rest, refused'],
    'not where nobody knows whether it is for a Mac': [{ desired: unreadableElsewhere }, 'rest, stopped'],
  },
  'nobody asks for it': given(
    { unloaded: unused },
    {
      'it is withdrawn first': [shown, 'withdraw, stopping'],
      'then it is stopped': [{ publication: withdrawn, server: ready }, 'stop, stopping'],
      'its requests finish': [{ publication: withdrawn, server: stopping }, 'rest, stopping'],
      'the claim stays': [{ publication: withdrawn }, 'rest, stopped'],
      'what the cluster cannot be told is not done': [{ ...shown, clusterRetry: outage }, 'rest, ready'],
      'somebody who suspends it gets it suspended': [
        { desired: stopped, publication: withdrawn },
        'unpublish, stopping',
      ],
    },
  ),
  'there is no memory for it': given(
    { obstacle },
    {
      'it is claimed all the same': [{}, 'claim, waiting'],
      'and its model fetched': [{ publication: claimed }, 'fetch, fetching'],
      'it is not started': [{ publication: claimed, fetch: fetched }, 'rest, waiting'],
      'nor started again after a crash': [{ publication: withdrawn, fetch: fetched, server: due }, 'rest, waiting'],
      'nor with another specification after a crash': [
        { publication: withdrawn, fetch: fetched, server: crashedBefore },
        'rest, waiting',
      ],
      'one that serves is not touched': [serving, 'rest, ready'],
      'what it left published when its server ended is withdrawn first': [
        { publication: shownReady, fetch: fetched },
        'withdraw, starting',
      ],
    },
  ),
  'a change is weighed before anything is stopped for it': {
    'how much the new server needs is found out': [{ ...changed, instead: undefined }, 'sizeUp, ready'],
    'of a Restart as well': [{ ...serving, restartAsked: true, instead: undefined }, 'sizeUp, ready'],
    'not before the change is settled': [{ ...changed, instead: undefined, desired: unsettledChange }, 'rest, ready'],
    'what would not fit even in place of the old one lets it serve': [{ ...changed, instead }, 'rest, ready'],
    'and be published, should it not be': [{ ...changed, instead, publication: withdrawn }, 'publish, starting'],
    'one that does not answer is not stopped for it either': [
      { ...changed, instead, publication: withdrawn, server: unready },
      'rest, unready',
    ],
    'what could not be started is asked again when its time has come': [
      { ...changed, instead: { ...instead, retryAt: now } },
      'sizeUp, ready',
    ],
    'and not before': [{ ...changed, instead: { ...instead, retryAt: now + 1 } }, 'rest, ready'],
  },
  'before the first list': {
    'nothing is concluded': [{ ...shown, desired: { kind: 'unknown', message: 'Waiting.' } }, 'rest, waiting'],
  },
}

describe.each(Object.entries(stories))('%s', (_title, story) => {
  test.each(Object.entries(story))('%s', (_sentence, [facts, outcome]) => {
    const { step, state } = plan({ ...idle, ...facts })
    expect(`${step.do}, ${state}`).toBe(outcome)
  })
})

const otherSource = { ...serve, source: 'https://models.example/b.gguf' }

test.each<[what: string, facts: Partial<Observation>, isKept: boolean]>([
  ['serves', { publication: shownReady, server: ready }, true],
  ['is not known to be wanted yet', { desired: unknown }, true],
  ['is deleted', { desired: gone }, false],
  ['is suspended', { desired: { ...stopped, reason: 'Suspended' } }, false],
  ['is scaled to zero', { desired: stopped }, false],
  ['is held', { desired: held }, false],
  ['is refused', { desired: refused }, false],
  ['is refused but goes on', { desired: { ...argsRejected, spares: { except: undefined } }, server: ready }, false],
  ['is for another accelerator', { desired: notOurs }, false],
  ['is excluded', { desired: excluded }, false],
  ['cannot be read', { desired: unreadable, publication: shownReady, server: ready }, false],
  ['lost its Model', { desired: modelMissing, publication: shownReady, server: ready }, false],
  ['names another source', { desired: otherSource, publication: shownReady, server: ready }, false],
  ['left memory unused', { unloaded: unused, publication: withdrawn }, false],
  ['is claimed elsewhere', { publication: foreign }, false],
  ['has its name taken', { publication: { ...nothingPublished, service: 'taken', serviceMessage: 'Taken.' } }, false],
])('a service that %s keeps its model fresh, or lets go of it', (_what, facts, isKept) => {
  expect(plan({ ...idle, fetch: fetched, ...facts }).step.do === 'cancelFetch').toBe(!isKept)
})

test('every plan that rests has a sentence, and every wait for a time names it', () => {
  const plans = Object.values(stories)
    .flatMap((story) => Object.values(story))
    .map(([facts]) => plan({ ...idle, ...facts }))
  const silent = plans.filter((one) => one.message === '' && !one.forget && one.state !== 'waiting')
  const timeless = plans.filter((one) => one.message === outage.message && one.retryAt === undefined)
  expect({ silent, timeless }).toEqual({ silent: [], timeless: [] })
})

const noon = Date.UTC(2026, 0, 1, 14, 3, 20, 700)
const notice = 'It runs without TOKEN.'

test.each<[what: string, facts: Partial<Observation>, message: string]>([
  ['the first failure is told as it was', { server: crashed }, 'Killed by SIGKILL.'],
  [
    'from the second on they are counted, and the next attempt has a time',
    { server: { ...crashed, failures: 2, nextStartAt: noon } },
    'Failed 2 times in a row, next attempt at 14:03:20Z: Killed by SIGKILL.',
  ],
  ['a start is a start', { server: starting }, 'Loading.'],
  ['one after many failures says so', { server: { ...starting, failures: 4 } }, 'Failed 4 times in a row. Loading.'],
  [
    'what may explain a failure is told with it',
    { server: { ...crashed, duringStart: true }, desired: { ...serve, notice } },
    'Killed by SIGKILL. It runs without TOKEN.',
  ],
  ['on the way it is not told', { server: starting, desired: { ...serve, notice } }, 'Loading.'],
  [
    'what serves tells it too',
    { server: ready, publication: shownReady, desired: { ...serve, notice } },
    'Serving at 192.0.2.7:5001. It runs without TOKEN.',
  ],
  ['what waits for memory says how much is missing', { obstacle }, obstacle.message],
  ['until the back-off has passed the failure is what is told', { obstacle, server: crashed }, 'Killed by SIGKILL.'],
  [
    'a change that does not fit is told beside what serves',
    { ...changed, instead },
    'Serving at 192.0.2.7:5001. The new server does not fit.',
  ],
  [
    'a change says what it does to the address before that is withdrawn',
    { ...changed, desired: unsettledChange },
    'Serving at 192.0.2.7:5001. The specification changed: the server is restarted with it, and its address pauses until the new one answers.',
  ],
  [
    'also while the model for it is fetched',
    { ...changed, fetch: fetching },
    'Fetching the model. The previous model keeps serving until then; its address then pauses until the new server answers.',
  ],
])('%s', (_what, facts, message) => {
  expect(plan({ ...idle, publication: withdrawn, fetch: fetched, ...facts }).message).toBe(message)
})

test.each(['InsufficientMemory', 'MemoryCheckFailed', 'MemoryPressure'] as const)(
  'what waits for memory with %s has this reason, and no time: freed memory wakes it',
  (reason) => {
    const waiting = { ...idle, publication: claimed, fetch: fetched, obstacle: { reason, message: 'Wait.' } }
    expect(plan(waiting)).toMatchObject({ reason, message: 'Wait.', retryAt: undefined })
  },
)

test('a name that is taken is looked at again when it may be free', () => {
  const publication = {
    ...nothingPublished,
    service: 'taken',
    serviceMessage: 'Delete it.',
    retryAt: now + 60,
  } as const
  expect(plan({ ...idle, publication }).retryAt).toBe(now + 60)
})

describe('a cluster that says something else', () => {
  const message = 'The cluster still says Progressing.'
  const serving = { publication: shownReady, fetch: fetched, server: ready }

  test('gets a minute to take it up, after which people are told', () => {
    const early = plan({ ...idle, ...serving, disagreement: { message, since: now - 59_000 } })
    expect(early).toMatchObject({ reason: 'Serving', message: 'Serving at 192.0.2.7:5001.', retryAt: now + 1_000 })
    const late = plan({ ...idle, ...serving, disagreement: { message, since: now - 60_000 } })
    expect(late).toMatchObject({
      step: { do: 'rest' },
      state: 'ready',
      reason: 'ClusterDisagrees',
      message: `Serving at 192.0.2.7:5001. ${message}`,
    })
  })

  test('is told beside another reason, which keeps its name', () => {
    const since = now - 60_000
    const says = 'The cluster still says Ready, although nothing is published here.'
    const waits = plan({
      ...idle,
      publication: withdrawn,
      fetch: fetched,
      obstacle,
      disagreement: { message: says, since },
    })
    expect(waits).toMatchObject({ reason: 'InsufficientMemory', message: `${obstacle.message} ${says}` })
  })

  test('keeps nothing from being done', () => {
    const since = now - 60_000
    expect(plan({ ...idle, ...changed, disagreement: { message, since } }).step.do).toBe('withdraw')
  })
})

test('a machine that sleeps is not called paused, unless a person paused it too', () => {
  const told = (changes: Partial<Observation>) => {
    const { reason, message } = plan({ ...idle, publication: withdrawn, server: ready, ...changes })
    return `${reason}: ${message}`
  }
  expect([
    told({ silence: 'asleep' }),
    told({ silence: 'unverified' }),
    told({ silence: 'asleep', paused: true }),
    told({ silence: 'asleep', server: idle.server }),
  ]).toEqual([
    'Asleep: This machine sleeps: the model stays in memory, and no requests are sent here.',
    'Asleep: This machine slept, and the server has not answered since: the model stays in memory, and no requests are sent here.',
    'Paused: This machine is paused: the model stays in memory, and no requests are sent here.',
    'Asleep: This machine sleeps: nothing is started until it is awake.',
  ])
})

test('that something changes the Service again and again is told while it waits to be put right', () => {
  const told = (service: PublicationView['service'], mendAt: number) =>
    plan({
      ...idle,
      publication: { ...shownReady, service, serviceMendAt: mendAt },
      fetch: fetched,
      server: ready,
    })
  expect(told('outdated', now + 30_000)).toMatchObject({
    message: `Serving at ${ip}:5001. Something else keeps changing the Service, which is put right three times in 30 s: kubectl get Service -o yaml --show-managed-fields names it.`,
    retryAt: now + 30_000,
  })
  expect(told('ours', now + 30_000)).toMatchObject({ message: `Serving at ${ip}:5001.`, step: { do: 'rest' } })
})
