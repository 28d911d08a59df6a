import { useState } from 'react'
import type { AppBridge, UpdateAction } from '../../contract/app-bridge.ts'
import type { AppState, Misplaced } from '../../contract/app-state.ts'
import { sharedWords } from '../../contract/words.ts'
import { Banner } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { CloseGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/text.tsx'
import { useApp, useSnapshot } from '../store.ts'
import { useAppState } from '../use-answer.ts'
import { appWords, updateWords } from '../words/app.ts'
import { overviewWords } from '../words/window.ts'
import { Answer, AskButton } from './answer.tsx'
import styles from './banners.module.css'

/** What a person should know of this machine, the most important first. */
export function Banners() {
  const host = useSnapshot((snapshot) => snapshot.host)
  const notices = useSnapshot((snapshot) => snapshot.notices)
  return (
    <>
      {host.paused && <Paused />}
      <Answer about="node" />
      {host.address === undefined && (
        <Banner tone="warn">
          <Sentence text={host.message} />
        </Banner>
      )}
      {notices.map((notice) => (
        <Banner key={notice} tone="note">
          <Sentence text={notice} />
        </Banner>
      ))}
    </>
  )
}

const Paused = () => (
  <Banner
    tone="warn"
    actions={
      <AskButton look="prominent" about="node" command={{ name: 'resumeNode' }}>
        {overviewWords.resume}
      </AskButton>
    }
  >
    {overviewWords.paused}
  </Banner>
)

/** What a person should know of the app itself; a page in a browser has nothing of it. */
export function AppBanners() {
  const app = useApp()
  return app === undefined ? null : <OfApp app={app} />
}

function OfApp({ app }: { readonly app: AppBridge }) {
  const { state, problem, take } = useAppState(app)
  if (state === undefined) return null
  return (
    <>
      {state.misplaced !== undefined && <MisplacedApp app={app} misplaced={state.misplaced} />}
      <div role="status" className={styles['news']}>
        <UpdateNews state={state} act={(action) => void take(app.update(action))} />
      </div>
      {problem !== undefined && (
        <Banner tone="bad">
          <p role="alert">{problem}</p>
        </Banner>
      )}
    </>
  )
}

interface UpdateNewsProps {
  readonly state: AppState
  readonly act: (action: UpdateAction) => void
}

/** What waits for a person or went wrong; an update that is only available shows in the menu and in the settings. */
function UpdateNews({ state: { update, lastUpdate }, act }: UpdateNewsProps) {
  const dismiss = (
    <Button look="plain" label={updateWords.dismiss} onPress={() => act('dismiss')}>
      <CloseGlyph />
    </Button>
  )
  switch (update.step) {
    case 'downloaded':
      return (
        <Banner
          tone="note"
          actions={
            <Button look="prominent" onPress={() => act('install')}>
              {updateWords.install}
            </Button>
          }
        >
          {updateWords.state(update)}
        </Banner>
      )
    case 'installing':
      return <Banner tone="note">{updateWords.state(update)}</Banner>
    case 'failed':
      return (
        <Banner
          tone="warn"
          actions={
            <>
              <Button onPress={() => act('look')}>{updateWords.look}</Button>
              {dismiss}
            </>
          }
        >
          <Sentence text={updateWords.state(update)} />
        </Banner>
      )
    default:
      return lastUpdate === undefined ? null : (
        <Banner tone={lastUpdate.wanted === lastUpdate.runs ? 'note' : 'warn'} actions={dismiss}>
          {sharedWords.lastUpdate(lastUpdate)}
        </Banner>
      )
  }
}

interface MisplacedAppProps {
  readonly app: AppBridge
  readonly misplaced: Misplaced
}

/** The app runs where it cannot stay. */
function MisplacedApp({ app, misplaced }: MisplacedAppProps) {
  const [problem, setProblem] = useState<string>()
  const move = async () => {
    const reply = await app.moveToApplications()
    setProblem(reply.ok ? reply.value?.message : reply.failure.message)
  }
  return (
    <Banner tone="warn" actions={<Button onPress={() => void move()}>{sharedWords.moveToApplications}</Button>}>
      {sharedWords.misplaced[misplaced]} {appWords.whyMove}
      {problem !== undefined && <p role="alert">{problem}</p>}
    </Banner>
  )
}
