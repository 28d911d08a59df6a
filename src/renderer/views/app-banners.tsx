import type { AppBridge, AppState, UpdateAction } from '../../contract/app-bridge.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { CloseGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useApp } from '../store.ts'
import { useAppState } from '../use-app-state.ts'
import { updateWords } from '../words/settings/updates.ts'
import styles from './app-banners.module.css'
import { MisplacedApp } from './misplaced.tsx'

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

/** What waits for a person or went wrong; an update that is only available is told in the menu and in the settings. */
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
          {updateWords.last(lastUpdate)}
        </Banner>
      )
  }
}
